"""One TCP (or TLS) connection to the target, read by the event loop itself.

The loop's own callback reads, so no greenlet need be scheduled between a segment's arrival and its read.
"""

from __future__ import annotations

import _socket
import errno
import os
import socket
import ssl
import time
from collections.abc import Callable

from gevent import Timeout, get_hub

from chaosflow.core.sample import Outcome
from chaosflow.load.exchange import Exchange
from chaosflow.load.stamps import SO_TIMESTAMPNS, TCP_INFO_BYTES, StampClock, received

_BUFFER = bytearray(256 * 1024)
_VIEW = memoryview(_BUFFER)
_READ, _WRITE = 1, 2
_AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)

Address = tuple[int, tuple[str, int]]
"""(address family, (IP, port))."""


def resolve(host: str, port: int) -> Address:
    """The first address of a host; raises OSError. Blocks: call it before the load begins."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, (str(address[0]), int(address[1]))


class Connection:
    """Carries one exchange at a time. ``on_free`` is called when it could carry another."""

    def __init__(
        self,
        clock: StampClock,
        on_free: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._clock, self._on_free, self._on_closed = clock, on_free, on_closed
        self._hub = get_hub()
        self._exchange: Exchange | None = None
        self._tls: _Tls | None = None
        self._last_ns = 0
        self._bytes = 0
        self._segments = 0
        self.closed = False
        self.used = False
        """Whether it has carried an exchange before."""

    def open(self, address: Address, timeout_s: float, tls: tuple[ssl.SSLContext, str] | None) -> None:
        """Connect; raises OSError or gevent.Timeout."""
        family, where = address
        self._sock = sock = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        self._reader = self._hub.loop.io(sock.fileno(), _READ)
        self._writer = self._hub.loop.io(sock.fileno(), _WRITE)
        try:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            sock.setsockopt(_socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            with Timeout(timeout_s):
                code = sock.connect_ex(where)
                if code == errno.EINPROGRESS:
                    self._hub.wait(self._writer)
                    code = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                if tls is not None:
                    self._tls = _Tls(*tls)
                    self._handshake(self._tls)
        except BaseException:
            self.close()
            raise
        self._reader.start(self._readable)

    def _handshake(self, tls: _Tls) -> None:
        while not tls.shake_hands():
            self._send_all(tls.outgoing())
            self._hub.wait(self._reader)
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

    def _send_all(self, payload: bytes) -> None:
        view = memoryview(payload)
        while view:
            try:
                view = view[self._sock.send(view, _socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._hub.wait(self._writer)  # a full socket belongs to the service
                if self.closed:
                    raise ConnectionResetError(errno.ECONNRESET, "closed while sending") from None

    def _readable(self) -> None:
        """Called by the loop: take all there is, stamp it, and only then look at it."""
        more = True
        while more and not self.closed:
            try:
                count, ancillary, _, _ = self._sock.recvmsg_into([_BUFFER], 64)
            except OSError as e:
                if e.errno not in _AGAIN:
                    self._ended(Outcome.RESET, e.strerror or "connection reset")
                return
            at_ns, by_kernel = self._clock.stamp(ancillary)
            if not count:
                self._ended(None, "")
                return
            more = count == len(_BUFFER)
            self._took(bytes(_VIEW[:count]), max(at_ns, self._last_ns), by_kernel)

    def _took(self, data: bytes, at_ns: int, by_kernel: bool) -> None:
        low_ns, self._last_ns = self._last_ns, at_ns
        self._bytes += len(data)
        total, segments = received(
            self._sock.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, TCP_INFO_BYTES)
        )
        # one segment since the last read, and nothing of it left: all events in it came at once
        one_segment = segments == self._segments + 1 and total == self._bytes
        self._segments = segments if total == self._bytes else -2
        try:
            if self._tls:
                data = self._tls.decrypt(data)
            exchange = self._exchange
            if exchange is None:
                if data:
                    self.close()  # nobody asked
                return
            if not by_kernel:
                exchange.record.user_stamps += 1
            if data:
                exchange.feed(data, at_ns, low_ns, one_segment=one_segment)
        except Exception as e:
            self._ended(Outcome.UNPARSEABLE, f"{type(e).__name__}: {e}")
            return
        if exchange.resolved:
            self._after(exchange)

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
        for watcher in (self._reader, self._writer):
            watcher.stop()
            watcher.close()
        self._sock.close()
        self._on_closed(self)


class _Tls:
    """TLS on memory buffers: the socket below keeps its kernel stamps."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=name)

    def shake_hands(self) -> bool:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def incoming(self, data: bytes) -> None:
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def outgoing(self) -> bytes:
        return self._out.read()

    def encrypt(self, payload: bytes) -> bytes:
        self._ssl.write(payload)
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        self._in.write(data)
        parts: list[bytes] = []
        try:
            while part := self._ssl.read(65536):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)
