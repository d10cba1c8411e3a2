"""The streaming client: a pool of kept-alive connections, a deadline, and a retry on a stale connection."""

from __future__ import annotations

import ssl
import time
from urllib.parse import urlsplit

import gevent
from gevent.event import Event

from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.connection import Address, Connection, resolve
from chaosflow.load.exchange import Exchange
from chaosflow.load.stamps import StampClock

_CONNECT_TIMEOUT_S = 10.0
_LINGER_S = 1.0


class StreamingClient:
    """Sends requests to one target. One per process; its greenlets share it."""

    def __init__(self, order: LoadOrder) -> None:
        parts = urlsplit(order.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._where = order.connect or (host, port)
        self._tls = (ssl.create_default_context(), host) if parts.scheme == "https" else None
        self._deadline_ns = round(order.plan.deadline * 1e9)
        self._address: Address | None = None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self.clock = StampClock()

    def fetch(self, record: RequestRecord, wire: bytes) -> None:
        """Carry out one request and fill its record; returns when it is resolved. Does not raise.

        A greenlet killed in here leaves its record ``cancelled``.
        """
        jumps = self.clock.jumps
        under_way = _UnderWay()
        left_ns = record.sched_ns + self._deadline_ns - time.monotonic_ns()
        try:
            with gevent.Timeout(max(0.001, left_ns / 1e9)):
                self._attempt_until_heard(record, wire, under_way)
        except gevent.Timeout:
            under_way.give_up(record, Outcome.DEADLINE, f"took longer than {self._deadline_ns / 1e9:g} s")
        except gevent.GreenletExit:
            under_way.give_up(record, Outcome.CANCELLED, "the run ended first")
        finally:
            record.clock_jump = self.clock.jumps != jumps
            under_way.leave()

    def _attempt_until_heard(self, record: RequestRecord, wire: bytes, under_way: _UnderWay) -> None:
        while True:
            connection = self._connection(record)
            if connection is None:
                return
            done = Event()
            # a server may close an idle connection just as it is reused: not a failure of the service
            exchange = Exchange(record, done.set, retry_silence=connection.used)
            under_way.connection, under_way.exchange = connection, exchange
            try:
                connection.begin(exchange, wire)
                done.wait()
            except OSError as e:
                exchange.fail(Outcome.RESET, e.strerror or str(e), time.monotonic_ns())
                connection.close()
            if not exchange.stale:
                return

    def _connection(self, record: RequestRecord) -> Connection | None:
        """An idle connection, or a new one; None (and a record that says why) where there is none."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        connection = Connection(self.clock, self._idle.append, self._forget)
        try:
            if self._address is None:
                self._address = resolve(*self._where)
            self._open.add(connection)
            connection.open(self._address, _CONNECT_TIMEOUT_S, self._tls)
        except (OSError, ssl.SSLError) as e:
            _not_connected(record, e.strerror or str(e))
            return None
        except gevent.Timeout as e:
            _not_connected(record, f"no connection within {e.seconds:.3g} s")
            return None
        return connection

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.close()
        self.clock.close()


class _UnderWay:
    """The attempt that a request is at."""

    connection: Connection | None = None
    exchange: Exchange | None = None

    def give_up(self, record: RequestRecord, outcome: Outcome, error: str) -> None:
        if record.end_ns is None:
            record.outcome, record.error, record.end_ns = outcome, error, time.monotonic_ns()
        if self.exchange is not None:
            self.exchange.resolved = True

    def leave(self) -> None:
        """Let the rest of a finished response come in for a moment; drop an unfinished one."""
        if self.connection is None or self.exchange is None or not self.connection.carries(self.exchange):
            return
        if self.exchange.record.outcome is Outcome.OK:
            gevent.spawn_later(_LINGER_S, self.connection.abandon, self.exchange)
        else:
            self.connection.close()


def _not_connected(record: RequestRecord, error: str) -> None:
    record.outcome, record.error, record.end_ns = Outcome.CONNECT, error, time.monotonic_ns()
