"""Finding processes and signalling exactly them."""

from __future__ import annotations

import os
import signal
import subprocess

from chaosflow.core.host import RUN_VARIABLE, ProcessRef
from chaosflow.linux import procs


def test_the_marker_of_a_run_finds_what_it_started() -> None:
    run = f"test-{os.getpid()}"
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, RUN_VARIABLE: run})
    try:
        assert [ref.pid for ref in procs.by_env_marker(run)] == [process.pid]
        assert procs.by_env_marker(run + "0") == []
    finally:
        process.kill()
        process.wait()
    assert procs.by_env_marker(run) == []


def test_a_signal_hits_that_very_process_or_none() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        ref = ProcessRef.of(process.pid)
        assert ref
        assert not procs.send(ProcessRef(ref.pid, ref.start_ticks + 1), signal.SIGKILL)
        assert not procs.send(ProcessRef(ref.pid, ref.start_ticks, "another boot"), signal.SIGKILL)
        assert process.poll() is None
        assert procs.send(ref, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert not procs.send(ref, signal.SIGKILL)
    assert procs.tree([ref]) == []


def test_our_own_ancestors_are_known() -> None:
    assert {os.getpid(), os.getppid()} <= procs.ourselves()
