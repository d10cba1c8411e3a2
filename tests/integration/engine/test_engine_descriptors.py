"""Out of file descriptors: what runs goes on, what comes waits, and the log stays readable."""

from __future__ import annotations

import resource
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from engine_process import RunningEngine, running_engine

REFUSED = b"out of system resource"


def _open_files(pid: int) -> int:
    return 1 + max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())


def _queue(engine: RunningEngine) -> int:
    """How many connections may wait to be accepted, as the kernel has it."""
    line = subprocess.run(
        ["ss", "-ltnH", f"sport = :{engine.port}"], capture_output=True, text=True, check=True
    ).stdout
    return int(line.split()[2])


@pytest.mark.slow
def test_without_descriptors_open_streams_go_on_and_the_log_is_not_flooded(tmp_path: Path) -> None:
    """CPython's accept loop goes on after EMFILE, as often as the backlog says, with a traceback for each."""
    log = tmp_path / "log"
    with log.open("wb") as errors, ExitStack() as stack:
        engine = stack.enter_context(running_engine(errors=errors))
        assert _queue(engine) == min(4096, int(Path("/proc/sys/net/core/somaxconn").read_text()))
        stream = engine.connect(stream=True, max_tokens=100_000, ignore_eos=True)
        stack.callback(stream.close)
        answer = stream.getresponse()
        answer.readline()
        most = _open_files(engine.process.pid)
        before = resource.prlimit(engine.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(engine.process.pid, resource.RLIMIT_NOFILE, (most, before[1]))
        waiting = [
            stack.enter_context(socket.create_connection(("127.0.0.1", engine.port))) for _ in range(3)
        ]
        deadline = time.monotonic() + 20
        while REFUSED not in log.read_bytes():
            assert time.monotonic() < deadline, "it never ran out"
            time.sleep(0.01)
        goes_on_until = time.monotonic() + 2.5  # it tries again after a second, and says so
        while time.monotonic() < goes_on_until:
            assert answer.readline(), "the open stream ended"
        lines = log.read_bytes().count(b"\n")
        assert 1 <= lines <= 10, log.read_bytes()[-2000:]
        assert len(waiting) == 3
        resource.prlimit(engine.process.pid, resource.RLIMIT_NOFILE, before)
        assert engine.post(max_tokens=2)[0] == 200
