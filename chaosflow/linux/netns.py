"""A network namespace of our own, held by a descriptor: the kernel drops it with its last holder.

Nothing is registered under /run/netns, so a kill -9 leaves no namespace behind.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from chaosflow.core.errors import ChaosflowError

T = TypeVar("T")

CLONE_NEWNET = 0x40000000  # <linux/sched.h>
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1  # <linux/sockios.h>, <linux/if.h>


def new_network_namespace() -> int | None:
    """A descriptor of a fresh namespace with only ``lo``, up; None without CAP_SYS_ADMIN.

    The calling process stays where it is: a short-lived thread makes the namespace. The descriptor
    is close-on-exec; hand it to a child with ``pass_fds`` and ``launcher --netns-fd``.
    """
    result: list[int | OSError] = []
    thread = threading.Thread(target=_make, args=(result,), name="netns")
    thread.start()
    thread.join()
    made = result[0]
    if isinstance(made, int):
        return made
    if made.errno in (1, 38, 28):  # EPERM, ENOSYS, ENOSPC (user.max_net_namespaces = 0)
        return None
    raise ChaosflowError("network namespace", f"cannot be made ({made.strerror})", "see dmesg")


def _make(result: list[int | OSError]) -> None:
    try:
        if _libc().unshare(CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        _bring_up_loopback()
        result.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        result.append(e)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call_inside(netns_fd: int | None, function: Callable[[], T]) -> T:
    """Run a short function in that network namespace. None: where the calling thread is.

    Sockets made there stay there. A worker thread goes there itself and comes back; for the main thread,
    in which signal handlers run, and where there is no way back, a short-lived thread goes.
    """
    if netns_fd is None:
        return function()
    if threading.current_thread() is threading.main_thread():
        return _by_a_thread(netns_fd, function)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(home).st_ino == os.fstat(netns_fd).st_ino:
            return function()
        # entering where one is asks for the same privilege as coming back (setns(2))
        if _libc().setns(home, CLONE_NEWNET):
            return _by_a_thread(netns_fd, function)
        _enter(netns_fd)
        try:
            return function()
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(netns_fd: int) -> None:
    if _libc().setns(netns_fd, CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, f"cannot enter the network namespace: {os.strerror(code)}")


def _by_a_thread(netns_fd: int, function: Callable[[], T]) -> T:
    result: list[T] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            _enter(netns_fd)
            result.append(function())
        except BaseException as e:
            trouble.append(e)

    thread = threading.Thread(target=work, name="in-netns")
    thread.start()
    thread.join()
    if trouble:
        raise trouble[0]
    return result[0]


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(s, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
