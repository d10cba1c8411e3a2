"""One connection to the target: connect, send, and what is read from it handed to its exchange.

The poller reads, in the event loop's own callback: no greenlet need be scheduled between a segment's arrival and
its read.
"""

from __future__ import annotations

import _socket
import errno
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gevent import Timeout, get_hub

from chaosflow.core.sample import Outcome
from chaosflow.load.exchange import Exchange
from chaosflow.load.poller import Chunk, Poller
from chaosflow.load.stamps import SO_TIMESTAMPNS, received
from chaosflow.load.tls import Tls

_READ, _WRITE = 1, 2


class Address(NamedTuple):
    """Where to connect."""

    family: int
    where: Any
    """As ``socket.connect`` wants it: (IP, port), (IP, port, flow, scope) or a path."""


def resolve(host: str, port: int) -> list[Address]:
    """All addresses of a host, in the order to try them; raises OSError. Blocks: call it before the load."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [Address(family, address) for family, _, _, _, address in found]


class Connection:
    """Carries one exchange at a time. ``on_free`` is called when it could carry another."""

    def __init__(
        self,
        poller: Poller,
        on_free: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._poller, self._on_free, self._on_closed = poller, on_free, on_closed
        self._hub = get_hub()
        self._exchange: Exchange | None = None
        self._tls: Tls | None = None
        self._last_ns = 0
        self._bytes = 0
        self._segments = 0
        self._reads = 0
        self.closed = False
        self.used = False
        """Whether it has carried an exchange before."""
        self.wants_tcp_info = False

    def open(self, address: Address, timeout_s: float, tls: tuple[ssl.SSLContext, str] | None) -> None:
        """Connect; raises OSError, TimeoutError among them."""
        kind = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK
        try:
            self._sock = sock = _socket.socket(address.family, kind)
        except OSError:
            self.closed = True
            self._on_closed(self)
            raise
        try:
            if address.family != socket.AF_UNIX:
                sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
                sock.setsockopt(_socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            with Timeout(timeout_s, TimeoutError(f"no connection within {timeout_s:.3g} s")):
                code = sock.connect_ex(address.where)
                self._poller.look()
                if code == errno.EINPROGRESS:
                    self._wait(_WRITE)
                    code = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                if tls is not None:
                    self._tls, self.wants_tcp_info = Tls(*tls), True
                    self._handshake(self._tls)
        except BaseException:
            self.close()
            raise
        self._poller.add(sock, self)

    def _wait(self, events: int) -> None:
        watcher = self._hub.loop.io(self._sock.fileno(), events)
        try:
            self._hub.wait(watcher)
        finally:
            watcher.close()

    def _handshake(self, tls: Tls) -> None:
        while not tls.shake_hands():
            self._send_all(tls.outgoing())
            self._wait(_READ)
            data = self._sock.recv(65536)
            self._bytes += len(data)
            tls.incoming(data)
        self._send_all(tls.outgoing())

    def begin(self, exchange: Exchange, payload: bytes) -> None:
        """Send a request; its response feeds ``exchange``. Raises OSError where the peer is gone."""
        self._exchange = exchange
        record = exchange.record
        record.sent_ns = None
        self._last_ns = time.monotonic_ns()
        self._send_all(self._tls.encrypt(payload) if self._tls else payload)
        record.sent_ns = time.monotonic_ns()
        self._last_ns = max(self._last_ns, record.sent_ns) if not exchange.bytes_seen else self._last_ns
        self.used = True
        self._poller.look()

    def _send_all(self, payload: bytes) -> None:
        view = memoryview(payload)
        while view:
            try:
                view = view[self._sock.send(view, _socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._wait(_WRITE)  # a full socket belongs to the service
                if self.closed:
                    raise ConnectionResetError(errno.ECONNRESET, "closed while sending") from None

    def took(self, chunk: Chunk) -> None:
        """Called by the poller for each read, in order."""
        if not chunk.data:
            self._ended(Outcome.RESET if chunk.error else None, chunk.error)
            return
        low_ns = self._last_ns
        self._last_ns = at_ns = max(chunk.at_ns, low_ns)
        self._reads += 1
        self._bytes += len(chunk.data)
        one_segment = bool(chunk.tcp_info) and self._is_one_segment(chunk)
        exchange = self._exchange
        try:
            data = self._tls.decrypt(chunk.data) if self._tls else chunk.data
            if exchange is None:
                if data:
                    self.close()  # nobody asked
                return
            if not chunk.by_kernel:
                exchange.record.user_stamps += 1
            if data:
                exchange.feed(data, at_ns, low_ns, one_segment=one_segment)
        except Exception as e:
            self._ended(Outcome.UNPARSEABLE, f"{type(e).__name__}: {e}")
            return
        if exchange.resolved:
            self._after(exchange)

    def _is_one_segment(self, chunk: Chunk) -> bool:
        """Whether all of it came in one segment, so that every event in it is exact.

        So it is where the kernel has counted as many segments as we have made reads since the last look, and
        holds nothing that we have not read. Looked up only where a read holds several events: before that, a read
        of two segments makes a later one look like an interval, never the other way round.
        """
        total, segments = received(chunk.tcp_info)
        level = total == self._bytes
        one = level and segments == self._segments + self._reads
        self._segments, self._reads = (segments, 0) if level else (-(1 << 40), 0)
        return one

    def _after(self, exchange: Exchange) -> None:
        if exchange.message_complete:
            self._exchange = None
            exchange.release()
            if exchange.keep_alive:
                self._on_free(self)
            else:
                self.close()
        elif exchange.record.outcome is not Outcome.OK:
            self.close()

    def _ended(self, outcome: Outcome | None, error: str) -> None:
        exchange, self._exchange = self._exchange, None
        now_ns = time.monotonic_ns()
        self.close()
        if exchange is None:
            return
        if outcome is None:
            exchange.ended(now_ns)
        else:
            exchange.fail(outcome, error, now_ns)
        exchange.release()

    def carries(self, exchange: Exchange) -> bool:
        return self._exchange is exchange and not self.closed

    def abandon(self, exchange: Exchange) -> None:
        """Close, if this exchange is still on it."""
        if self.carries(exchange):
            self.close()

    def close(self) -> None:
        """Close at once; an exchange under way is not told."""
        if self.closed:
            return
        self.closed = True
        if self._exchange is not None:
            self._exchange.release()
            self._exchange = None
        self._poller.remove(self._sock)
        self._sock.close()
        self._on_closed(self)
