"""A server that is down costs the first test its time; fifty others must not each wait a minute for it."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from chaosflow.core.errors import ChaosflowError
from chaosflow.pytest_plugin.options import Settings
from chaosflow.pytest_plugin.rig import Rig

if TYPE_CHECKING:
    from chaosflow.core.scenario import TargetSpec

pytestmark = pytest.mark.slow


class Impatient(Settings):
    """Waits 4 s instead of a minute."""

    def target(self) -> TargetSpec:
        return Settings.target(self).model_copy(update={"ready_timeout": 4.0})


@pytest.fixture
def state_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short, since sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="cfp-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        yield


@pytest.mark.usefixtures("state_dir")
def test_a_server_that_was_down_is_not_waited_for_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = {"--chaos-url": f"http://127.0.0.1:{port}/v1"}
    config = SimpleNamespace(rootpath=tmp_path, getoption=options.get, getini=lambda name: None)
    rig = Rig(Impatient.of(config))  # type: ignore[arg-type]
    try:
        with pytest.raises(ChaosflowError, match="not healthy after 4 s"):
            rig.standing()
        for _ in range(2):
            with pytest.raises(ChaosflowError, match="not healthy after 2 s"):
                rig.standing()
    finally:
        rig.close()
