"""Round trips measured by TCP handshakes on the faulty path itself: no byte is sent, no application asked."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time

from chaosflow.linux.netns import call_inside


def handshakes_ms(netns_fd: int, address: tuple[str, int], count: int, timeout_s: float) -> list[float]:
    """Times of those of ``count`` handshakes, begun together, that ended in time. A refusal is an answer too."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

    def make() -> list[socket.socket]:
        return [socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(count)]

    sockets = call_inside(netns_fd, make)
    try:
        return _measure(sockets, address, timeout_s)
    finally:
        for sock in sockets:
            sock.close()


def _measure(sockets: list[socket.socket], address: tuple[str, int], timeout_s: float) -> list[float]:
    poll = select.epoll()
    begun_ns: dict[int, int] = {}
    took: list[float] = []
    with contextlib.closing(poll):
        for sock in sockets:
            begun_ns[sock.fileno()] = time.monotonic_ns()
            if sock.connect_ex(address) in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
                poll.register(sock, select.EPOLLOUT | select.EPOLLONESHOT)
        give_up = time.monotonic() + timeout_s
        while len(took) < len(sockets) and (left := give_up - time.monotonic()) > 0:
            now = poll.poll(left)
            at_ns = time.monotonic_ns()
            took += [(at_ns - begun_ns[fd]) / 1e6 for fd, _ in now]
    return took
