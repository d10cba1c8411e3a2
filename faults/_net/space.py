"""A network namespace, found again by its inode: from another process, after the target was restarted."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from chaosflow.core.host import Host

_OWN = "/proc/self/ns/net"
_found_at: dict[int, str] = {}
"""Where a namespace was seen last: looked at first, and checked like any other place."""


def inode_of(path: str) -> int:
    """The number by which a namespace is known; raises OSError where the path leads nowhere."""
    return os.stat(path).st_ino


def of_target(host: Host) -> int:
    """The namespace that the target lives in; our own where its processes are not known."""
    for ref in host.target.processes:
        with contextlib.suppress(OSError):
            return inode_of(f"/proc/{ref.pid}/ns/net")
    return inode_of(_OWN)


def is_own(inode: int) -> bool:
    return inode == inode_of(_OWN)


@contextlib.contextmanager
def opened(inode: int, *, lock: bool = True) -> Iterator[int | None]:
    """A descriptor of that namespace, with ``lock`` held against every other ChaosFlow; None when it is gone.

    The lock is an flock on the namespace itself: it leaves no file behind.
    """
    fd = _open(inode)
    if fd is None:
        yield None
        return
    try:
        if lock:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _open(inode: int) -> int | None:
    for path in _candidates(inode):
        try:
            if os.stat(path).st_ino != inode or not _is_namespace(path):
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        if os.fstat(fd).st_ino == inode:
            _found_at[inode] = path
            return fd
        os.close(fd)
    return None


def _is_namespace(path: str) -> bool:
    """Under /run/netns namespaces are files; elsewhere links that say what they are."""
    return "netns/" in path or os.readlink(path).startswith("net:[")


def _candidates(inode: int) -> Iterator[str]:
    yield _OWN
    if inode in _found_at:
        yield _found_at[inode]
    for folder in ("/proc/self/fd", "/run/netns", "/var/run/netns"):  # a descriptor may be its only holder
        with contextlib.suppress(OSError):
            yield from (str(p) for p in Path(folder).iterdir())
    with contextlib.suppress(OSError):
        yield from (f"/proc/{p}/ns/net" for p in os.listdir("/proc") if p.isdigit())
