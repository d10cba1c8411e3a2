"""Real process trees and cgroups for the tests of process and host faults."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.linux import cgroup, procs

needs_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sets limits of a cgroup of its own"),
]

TREE = "sleep 1000 & sh -c 'sleep 1000 & sleep 1000 & wait' & wait"
"""A shell, a sleep, a second shell and its two sleeps: five processes."""


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.005)


def ref_of(process: subprocess.Popen[bytes]) -> ProcessRef:
    ref = ProcessRef.of(process.pid)
    assert ref
    return ref


@contextlib.contextmanager
def started(*command: str, size: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a session of its own, once its tree has ``size`` processes; killed as a group at the end."""
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(procs.tree([ref_of(process)])) >= size, f"{size} processes")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@contextlib.contextmanager
def five_processes() -> Iterator[subprocess.Popen[bytes]]:
    with started("sh", "-c", TREE, size=5) as process:
        yield process


@contextlib.contextmanager
def spinning_in_a_cgroup(name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that uses all the CPU it gets, alone in a cgroup of its own; the cpu folder with it."""
    folders = cgroup.create_run_cgroup(f"test-{os.getpid()}-{name}")
    try:
        with started(sys.executable, "-c", "while True: pass") as process:
            cgroup.enter(folders, process.pid)
            folder = cgroup.cpu_folder(folders)
            assert folder
            yield process, folder
    finally:
        cgroup.kill_and_remove(folders)


def host_of(process: subprocess.Popen[bytes] | None, **more: object) -> Host:
    """A host whose target is a user's server made of this process tree."""
    roots = () if process is None else (ref_of(process),)
    groups = {} if process is None else cgroup.cgroups_of(process.pid)
    target = TargetHandle(
        included=False,
        url="http://127.0.0.1:1/v1",
        processes=roots,
        cgroups=groups,
        selector="pid" if process else "",
    )
    return Host(run_id="test", target=target, **more)  # type: ignore[arg-type]
