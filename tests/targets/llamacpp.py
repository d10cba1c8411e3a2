"""llama.cpp's server over the tiny model: up in about a second, the real target of every test run.

What a client must bear of it: a role chunk with ``content: null``; a usage chunk with ``choices: []``; no
headers before the first token; it says keep-alive, yet closes after each stream.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from target_process import TargetProcess, free_port, running
from tiny_model import TinyModel

_PROGRAM = Path(__file__).with_name("llamacpp_server.py")
_SUPERVISOR = Path(__file__).with_name("supervise.py")


@contextlib.contextmanager
def llamacpp_server(
    model: TinyModel, log_folder: Path, slots: int = 16, *, supervised: bool = False
) -> Iterator[TargetProcess]:
    """A healthy llama.cpp server with room for ``slots`` streams; gone, with its cgroup, at the end.

    ``supervised``: started again half a second after its death; ``pid`` is then the supervisor's.
    """
    port = free_port()
    command = [sys.executable, str(_PROGRAM), str(model.gguf), str(port), str(slots)]
    if supervised:
        command = [sys.executable, str(_SUPERVISOR), "0.5", *command]
    with running("llamacpp", command, port, log_folder / "llamacpp.log") as target:
        yield target
