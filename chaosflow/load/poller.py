"""Reads many sockets promptly: first everything that is ready, stamped, and only then its meaning.

One epoll for all connections instead of a watcher each: a burst of hundreds of streams is taken from the kernel
in a few ms, so that each read holds one event and its stamp is exact, and parsed in the pause that follows.
"""

from __future__ import annotations

import _socket
import errno
import time
from collections import deque
from typing import NamedTuple, Protocol

from gevent import get_hub
from gevent.monkey import get_original

from chaosflow.load.stamps import TCP_INFO_BYTES, StampClock

_BUFFER = bytearray(256 * 1024)
_VIEW = memoryview(_BUFFER)
_READ = 1  # libev's EV_READ, and EPOLLIN
_ROUND = 64
"""Sockets between two samples of the clocks."""
_PARSE_NS = 300_000
"""After so long, look whether more has come."""
_SLICE_NS = 1_500_000
"""After so long, let the event loop serve others."""
_LOOK_NS = 300_000
"""Between two looks of those who do much in one turn of the loop."""
_AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)
_MANY = b"data:"


class Chunk(NamedTuple):
    """What one read brought. Empty ``data``: the peer closed, or ``error`` says what happened."""

    data: bytes
    at_ns: int
    by_kernel: bool
    error: str = ""
    tcp_info: bytes = b""


class Reader(Protocol):
    """A connection as the poller sees it."""

    closed: bool
    wants_tcp_info: bool
    """Always; otherwise only of reads that hold several events."""

    def took(self, chunk: Chunk) -> None:
        """The meaning of one read, in order."""


class Poller:
    """One per event loop."""

    def __init__(self, clock: StampClock) -> None:
        self._clock = clock
        self._hub = get_hub()
        self._epoll = get_original("select", "epoll")()  # gevent hides it
        self._watcher = self._hub.loop.io(self._epoll.fileno(), _READ)
        self._watcher.start(self._ready)
        self._later = self._hub.loop.timer(0.0)  # not a callback: those come before sockets and timers
        self._readers: dict[int, tuple[_socket.socket, Reader]] = {}
        self._chunks: deque[tuple[Reader, Chunk]] = deque()
        self._parsing = False
        self._looked_ns = 0

    def add(self, sock: _socket.socket, reader: Reader) -> None:
        self._readers[sock.fileno()] = (sock, reader)
        self._epoll.register(sock.fileno(), _READ)

    def remove(self, sock: _socket.socket) -> None:
        """Before it is closed; does nothing where it was not added."""
        if self._readers.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock.fileno())

    def close(self) -> None:
        self._watcher.stop()
        self._watcher.close()
        self._later.stop()
        self._later.close()
        self._epoll.close()

    def look(self) -> None:
        """Read what has come, unless that was done just now; its meaning waits for the loop.

        For those who act once for each of many streams: hundreds that connect in one turn of the loop would else keep
        it from the sockets for tens of ms, and what comes in meanwhile is stamped together.
        """
        if time.monotonic_ns() - self._looked_ns < _LOOK_NS:
            return
        self._read_all()
        if self._chunks and not self._parsing:
            self._parsing = True
            self._later.start(self._parse)

    def _ready(self) -> None:
        """Called by the loop."""
        self._read_all()
        if not self._parsing:
            self._parse()

    def _read_all(self) -> None:
        """One read of every socket that has something, until none has, but each at most once."""
        seen: set[int] = set()
        while ready := self._epoll.poll(0, _ROUND):
            fresh = [fd for fd, _ in ready if fd not in seen]
            seen.update(fresh)
            jumps = self._clock.jumps
            now_ns = self._clock.sample()
            sound = jumps == self._clock.jumps
            for fd in fresh:
                self._read(fd, now_ns, sound)
            if len(ready) < _ROUND or not fresh:
                break
        self._looked_ns = time.monotonic_ns()

    def _read(self, fd: int, now_ns: int, sound: bool) -> None:
        found = self._readers.get(fd)
        if found is None:
            return
        sock, reader = found
        try:
            count, ancillary, _, _ = sock.recvmsg_into([_BUFFER], 64)
        except OSError as e:
            if e.errno not in _AGAIN:
                self._over(sock, reader, e.strerror or "connection reset")
            return
        if not count:
            self._over(sock, reader, "")
            return
        at_ns, by_kernel = self._clock.stamp_since(ancillary if sound else [], now_ns)
        data = bytes(_VIEW[:count])
        several = reader.wants_tcp_info or data.count(_MANY) > 1
        info = tcp_info(sock) if several else b""
        self._chunks.append((reader, Chunk(data, at_ns, by_kernel, "", info)))

    def _over(self, sock: _socket.socket, reader: Reader, error: str) -> None:
        self.remove(sock)  # or it would be ready for ever
        self._chunks.append((reader, Chunk(b"", time.monotonic_ns(), False, error)))

    def _parse(self) -> None:
        self._parsing = False
        now_ns = time.monotonic_ns()
        look_ns, pause_ns = now_ns + _PARSE_NS, now_ns + _SLICE_NS
        chunks = self._chunks
        while chunks:
            reader, chunk = chunks.popleft()
            if not reader.closed:
                reader.took(chunk)
            now_ns = time.monotonic_ns()
            if now_ns > look_ns:
                self._read_all()
                look_ns = time.monotonic_ns() + _PARSE_NS
            if now_ns > pause_ns and chunks:
                self._parsing = True
                self._later.start(self._parse)
                return


def tcp_info(sock: _socket.socket) -> bytes:
    """struct tcp_info (tcp(7)); empty where the socket is none of TCP."""
    try:
        return sock.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, TCP_INFO_BYTES)
    except OSError:
        return b""
