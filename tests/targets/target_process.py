"""A real server as a user would have it: a process of its own, in a cgroup of its own, on a loopback port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaosflow.linux import cgroup, launcher

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class TargetProcess:
    """A healthy server."""

    name: str
    port: int
    pid: int
    log: Path
    cpu_cgroup: Path | None
    """Folder that limits its CPU time and holds nobody else; None without privilege."""

    @property
    def url(self) -> str:
        """As ``target.url`` wants it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def healthy(self) -> bool:
        """Whether it answers /health now. False also while it is stopped."""
        return _answers(f"http://127.0.0.1:{self.port}/health")


@contextlib.contextmanager
def running(
    name: str,
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    ready_timeout_s: float = 60.0,
) -> Iterator[TargetProcess]:
    """Start ``command``, wait until /health answers, and at the end SIGINT it and remove its cgroup.

    It dies with this thread (so call it from the main one). What of its children outlives it is killed.
    Raises RuntimeError with the end of its log when it does not get healthy.
    """
    with _own_cgroup(f"chaosflow-test-{name}-{port}") as folders, log.open("wb") as out:
        places = [word for folder in folders.values() for word in ("--cgroup", str(folder))]
        start = [sys.executable, "-I", "-S", str(launcher.__file__), "--parent", str(os.getpid()), *places]
        process = subprocess.Popen(
            [*start, "--", *command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
        )  # fmt: skip
        cpu = folders.get("cpu") or folders.get("")
        target = TargetProcess(name, port, process.pid, log, cpu)
        try:
            _wait_until_healthy(target, process, ready_timeout_s)
            yield target
        finally:
            _stop(process)


def free_port() -> int:
    """A loopback TCP port that nobody listens on now. Does not reserve it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_until_healthy(target: TargetProcess, process: subprocess.Popen[bytes], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not target.healthy():
        if process.poll() is not None or time.monotonic() > deadline:
            how = "is not healthy" if process.returncode is None else f"ended with {process.returncode}"
            tail = target.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{target.name} on port {target.port}: {how}; its log ends:\n{tail}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes], grace_s: float = 20.0) -> None:
    """SIGCONT in case a failed test left it stopped, SIGINT, and SIGKILL to its session after ``grace_s``."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGCONT)
        os.kill(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the launcher made it the leader of a session
    process.wait()


@contextlib.contextmanager
def _own_cgroup(name: str) -> Iterator[dict[str, Path]]:
    """A cgroup that can limit CPU time, as systemd would give a service; {} where we may not make one."""
    where = cgroup.layout()
    mount = where.mounts["cpu" if where.cpu_version() == 1 else ""] if cgroup.can_create() else None
    if mount is None:
        yield {}
        return
    if where.cpu_version() == 2:
        (mount / "cgroup.subtree_control").write_text("+cpu")  # limits nothing
    folders = {"cpu" if where.cpu_version() == 1 else "": mount / name}
    for folder in folders.values():
        folder.mkdir()
    try:
        yield folders
    finally:
        cgroup.kill_and_remove(folders)


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
