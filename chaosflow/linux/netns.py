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

from chaosflow.core.errors import ChaosflowError

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
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        _bring_up_loopback()
        result.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        result.append(e)


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(s, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
