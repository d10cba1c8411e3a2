from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaosflow.core.errors import ScenarioError
from chaosflow.pytest_plugin.options import Settings


class Config:
    """As much of pytest.Config as the options need."""

    def __init__(self, ini: dict[str, str] | None = None, **options: Any) -> None:
        self.rootpath = Path("/suite")
        self._ini, self._options = ini or {}, options

    def getoption(self, name: str) -> Any:
        return self._options.get(name.removeprefix("--chaos-").replace("-", "_"))

    def getini(self, name: str) -> Any:
        return self._ini.get(name)


def settings(ini: dict[str, str] | None = None, **options: Any) -> Settings:
    return Settings.of(Config(ini, **options))  # type: ignore[arg-type]


def test_without_anything_it_is_the_included_engine() -> None:
    found = settings()
    assert found.target().engine is not None
    assert found.overrides() == []
    assert found.runs_dir == Path("/suite/runs")
    assert (found.inconclusive, found.cannot, found.strict) == ("fail", "fail", False)


def test_the_command_line_beats_the_ini_file() -> None:
    ini = {"chaos_url": "http://127.0.0.1:1/v1", "chaos_inconclusive": "skip", "chaos_runs_dir": "out"}
    assert settings(ini).url == "http://127.0.0.1:1/v1"
    assert settings(ini).inconclusive == "skip"
    assert settings(ini).runs_dir == Path("/suite/out")
    assert settings(ini, inconclusive="warn").inconclusive == "warn"


def test_a_server_becomes_a_target_and_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a-secret-key")
    found = settings(
        url="http://127.0.0.1:8000/v1", model="m", process="listen_port=8000", api_key_env="MY_KEY"
    )
    target = found.target()
    assert target.process is not None
    assert target.process.listen_port == 8000
    assert target.api_key == "a-secret-key"
    assert found.overrides() == [
        'target.url="http://127.0.0.1:8000/v1"',
        'target.model="m"',
        "target.api_key=${env:MY_KEY}",
        'target.process={"listen_port": 8000}',
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"process": "8000", "url": "http://127.0.0.1:1/v1"}, "write KEY=VALUE"),
        ({"process": "listen_port=8000"}, "only for a server given by --chaos-url"),
    ],
)
def test_what_cannot_be_is_a_usage_error(options: dict[str, str], said: str) -> None:
    with pytest.raises(pytest.UsageError, match=said):
        settings(**options)


def test_a_wrong_process_is_named() -> None:
    found = settings(url="http://127.0.0.1:1/v1", process="listen_prt=8000")
    with pytest.raises(ScenarioError, match="did you mean 'listen_port'"):
        found.target()
