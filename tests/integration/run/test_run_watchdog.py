"""The watchdog alone: whatever happens to those it talks to, it heals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.host import Host, ProcessRef, TargetHandle, state
from chaosflow.core.journal import Journal
from chaosflow.orchestrator.catalogue import load_atoms

pytestmark = pytest.mark.slow


@pytest.fixture
def state_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cf-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        yield Path(folder)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def abandoned_pause(process: subprocess.Popen[bytes]) -> Path:
    """The journal of a run that stopped a process and was killed."""
    ref = ProcessRef.of(process.pid)
    assert ref
    host = Host("r1", TargetHandle(False, "http://127.0.0.1:1/v1", processes=(ref,)))
    undo = asyncio.run(load_atoms().get("process.pause")().plan(host, "freeze"))
    journal = Journal.create("r1")
    journal.plan(undo)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # it takes the signal when it gets a CPU
    journal.close(remove=False)
    return journal.folder


def watchdog(folder: Path, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "chaosflow.watchdog", str(folder)], stdin=subprocess.DEVNULL, **streams
    )


def test_an_orchestrator_killed_before_the_watchdog_was_up(
    state_dir: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """Nobody is left to read its first line: it must not die of that."""
    folder = abandoned_pause(sleeper)
    reader, writer = os.pipe()
    os.close(reader)
    process = watchdog(folder, stdout=writer, stderr=subprocess.DEVNULL)
    os.close(writer)
    assert process.wait(30) == 0
    assert state(sleeper.pid) in "SR"
    assert not folder.exists()


def test_a_log_on_a_full_disk_is_no_obstacle(state_dir: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = abandoned_pause(sleeper)
    with open("/dev/full", "wb") as full:
        process = watchdog(folder, stdout=full.fileno(), stderr=full.fileno())
    assert process.wait(30) == 0
    assert state(sleeper.pid) in "SR"


def test_nothing_to_watch_is_nothing_to_do(state_dir: Path) -> None:
    assert watchdog(state_dir / "never", stdout=subprocess.DEVNULL).wait(30) == 0


def test_terminal_signals_do_not_reach_it(state_dir: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = abandoned_pause(sleeper)
    process = subprocess.Popen(
        [sys.executable, "-m", "chaosflow.watchdog", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
    assert state(sleeper.pid) in "SR"
