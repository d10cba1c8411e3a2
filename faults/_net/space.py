"""A network namespace, found again by its inode: from another process, after the target was restarted."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import Host

_OWN = "/proc/self/ns/net"
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21  # <linux/capability.h>
_REMEDY = "run as root with CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE"
_found_at: dict[int, str] = {}
"""Where a namespace was seen last: looked at first, and checked like any other place."""


def inode_of(path: str) -> int:
    """The number by which a namespace is known; raises OSError where the path leads nowhere."""
    return os.stat(path).st_ino


def of_target(host: Host) -> int:
    """The namespace that the target lives in; our own where its processes are not known.

    Raises CapabilityError where it may not be looked at: ours would be the wrong one.
    """
    for ref in host.target.processes:
        try:
            return inode_of(f"/proc/{ref.pid}/ns/net")
        except PermissionError as e:
            raise CapabilityError(
                f"network namespace of process {ref.pid}", "may not be looked at", _REMEDY
            ) from e
        except OSError:  # it has ended
            continue
    return inode_of(_OWN)


def is_own(inode: int) -> bool:
    return inode == inode_of(_OWN)


@contextlib.contextmanager
def opened(inode: int, *, lock: bool = True) -> Iterator[int | None]:
    """A descriptor of that namespace, with ``lock`` held against every other ChaosFlow; None when it is gone.

    Raises CapabilityError where that cannot be known: then a fault in it is not undone. The lock is an flock
    on the namespace itself: it leaves no file behind.
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
    """None when it is gone; CapabilityError where we have lost the right to look for it, and to undo in it."""
    unseen = 0
    for path in _candidates(inode):
        try:
            found = os.stat(path)
            if found.st_ino != inode or found.st_dev != _namespaces():
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            unseen += 1
            continue
        except OSError:
            continue
        if os.fstat(fd).st_ino == inode:
            _found_at[inode] = path
            return fd
        os.close(fd)
    if unseen and not _may_enter():
        raise CapabilityError(
            f"network namespace {inode}",
            f"is not found, and the namespaces of {unseen} processes may not be looked at",
            _REMEDY,
        )
    return None


def _may_enter() -> bool:
    """Whether this process has what entering a namespace and changing it takes (capabilities(7))."""
    status = Path("/proc/thread-self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return all(effective >> bit & 1 for bit in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


@cache
def _namespaces() -> int:
    """The device that all namespaces of this machine are on: nothing else has its numbers."""
    return os.stat(_OWN).st_dev


def _candidates(inode: int) -> Iterator[str]:
    if inode in _found_at:
        yield _found_at[inode]
    yield _OWN
    for folder in ("/proc/self/fd", "/run/netns", "/var/run/netns"):  # a descriptor may be its only holder
        with contextlib.suppress(OSError):
            yield from (str(p) for p in Path(folder).iterdir())
    with contextlib.suppress(OSError):
        yield from (f"/proc/{p}/ns/net" for p in os.listdir("/proc") if p.isdigit())
