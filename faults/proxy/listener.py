"""Accepting connections, also where file descriptors run out: then they wait, and the control API goes on."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Callable

_BACKLOG = 4096
_AT_ONCE = 8
"""Accepted in one turn of the loop: streams that are open wait no longer than that."""
_LOOK_AGAIN_S = 0.1


class Listener:
    """One listening socket. asyncio's own server tries to accept, and complains, 4,096 times when there is
    no descriptor left, while every stream stands still.
    """

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._sock, self._protocol = sock, protocol
        self._loop = asyncio.get_running_loop()
        self._begun: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        self.starved = 0
        """How often connections had to wait because no descriptor was left for them."""
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more; what waits to be accepted is reset by the kernel."""
        self._loop.remove_reader(self._sock)
        if self._again:
            self._again.cancel()
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                made, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # EMFILE, ENFILE, ENOBUFS, ENOMEM (accept(2))
                self._pause()
                return
            made.setblocking(False)
            task = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, made))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)
            if made.fileno() >= _most():
                self._pause()
                return

    def _pause(self) -> None:
        self.starved += 1
        self._loop.remove_reader(self._sock)
        self._again = self._loop.call_later(_LOOK_AGAIN_S, self._resume)

    def _resume(self) -> None:
        """Go on as soon as a new descriptor, always the lowest free number (open(2)), is low enough."""
        try:
            lowest = os.dup(self._sock.fileno())
        except OSError:
            lowest = _most()
        else:
            os.close(lowest)
        if lowest < _most():
            self._loop.add_reader(self._sock, self._accept)
        else:
            self._again = self._loop.call_later(_LOOK_AGAIN_S, self._resume)


def _most() -> int:
    """From this number on descriptors are kept: for the upstream end of each connection, and for the control API."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft // 2
