"""Targets that are born in a cgroup of their own, supervisors, and a look at what helpers leave behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from process_rig import host_of, started, wait_for

from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.linux import cgroup, finding, launcher, procs, room
from chaosflow.linux.stressor import FAULT_VARIABLE

RUN = f"test-{os.getpid()}"
"""The run id of this test process: two test sessions on one machine must not meet."""
_numbers = itertools.count()
HOLDS_40_MIB = "import time; b = bytearray(range(256)) * (40 << 12); print(flush=True); time.sleep(1000)"
GROWS = "import sys; b = bytearray(40 << 20)\nfor line in sys.stdin: b += bytearray(1 << 20)"


def host_for(process: subprocess.Popen[bytes] | None) -> Host:
    return replace(host_of(process), run_id=RUN)


@contextlib.contextmanager
def born_in_a_cgroup(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Path]]]:
    """A command whose memory was charged to its own cgroup from the first page on."""
    folders = cgroup.create_run_cgroup(f"{RUN}-{next(_numbers)}")
    options = [word for folder in folders.values() for word in ("--cgroup", str(folder))]
    argv = [sys.executable, "-I", "-S", launcher.__file__, "--parent", str(os.getpid()), *options, "--"]
    process = subprocess.Popen([*argv, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        wait_for(lambda: _has_execed(process, command[0]), "the command in its cgroup")
        yield process, folders
    finally:
        cgroup.kill_and_remove(folders)
        process.wait(10)
        assert process.stdout
        process.stdout.close()


def _has_execed(process: subprocess.Popen[bytes], program: str) -> bool:
    line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    return line.startswith(program.encode() + b"\0") and b"--parent" not in line


@contextlib.contextmanager
def holding_memory() -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that holds 40 MiB, alone in its memory cgroup."""
    with born_in_a_cgroup(sys.executable, "-c", HOLDS_40_MIB) as (process, folders):
        assert process.stdout
        process.stdout.readline()
        folder = cgroup.controller_folder(folders, "memory")
        assert folder
        yield process, folder


@contextlib.contextmanager
def supervised() -> Iterator[tuple[Host, Path]]:
    """A process that is started again whenever it dies, by somebody else; its pid file with it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pid"
        loop = f"while :; do sleep 1000 & echo $! > {file}.new; mv {file}.new {file}; wait; done"
        with started("sh", "-c", loop, size=2):
            wait_for(file.exists, "a pid file")
            target = TargetHandle(
                included=False,
                url="http://127.0.0.1:1/v1",
                processes=finding.by_pid_file(str(file)),
                selector=f"pid_file {file}",
            )
            yield Host(run_id=RUN, target=target), file


def disk_or_why_not() -> str:
    """Empty where ``a_disk`` has something to give."""
    if room.disk_of(Path("/var/tmp")) is not None:
        return ""
    if os.geteuid() == 0 and Path("/dev/loop-control").exists() and shutil.which("mkfs.ext4"):
        return ""
    return "needs /var/tmp on a disk, or root, a loop device and mkfs.ext4"


@contextlib.contextmanager
def a_disk() -> Iterator[Path]:
    """A folder on a disk: below /var/tmp, or where that is none on a loop device of our own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        if room.disk_of(Path(folder)) is not None:
            yield Path(folder)
            return
        image, mount = Path(folder) / "image", Path(folder) / "mount"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(32 << 20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
        try:
            yield mount
        finally:
            subprocess.run(["umount", str(mount)], check=True)


def _marked() -> Iterator[int]:
    marker = f"{FAULT_VARIABLE}={RUN}/".encode()
    for pid in procs.pids():
        with contextlib.suppress(OSError):
            if marker in Path(f"/proc/{pid}/environ").read_bytes():
                yield pid


def helpers_left() -> list[str]:
    """Helper processes and cgroups of this test process's faults, as text."""
    found = [f"process {pid} {procs.command(pid)}" for pid in _marked()]
    for mount in set(cgroup.layout().mounts.values()):
        found += [f"cgroup {folder}" for folder in (mount / cgroup.TOP).glob(f"{RUN}.*")]
    return sorted(found)


@contextlib.contextmanager
def swept() -> Iterator[None]:
    """End what a failed test left behind, so that the next one is not misled."""
    try:
        yield
    finally:
        for ref in [r for r in map(ProcessRef.of, _marked()) if r]:
            procs.send(ref, signal.SIGKILL)
        mounts = cgroup.layout().mounts
        names = {f.name for mount in mounts.values() for f in (mount / cgroup.TOP).glob(f"{RUN}.*")}
        for name in names:
            cgroup.kill_and_remove(cgroup.run_folders(name))


def until(condition: object, seconds: float = 5.0) -> None:
    """Wait until a callable gives something true."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.01)
