"""The streaming client: a pool of kept-alive connections, its time limits, and a retry on a stale connection."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import gevent
from gevent.event import Event

from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.connection import Address, Connection, resolve
from chaosflow.load.exchange import Exchange
from chaosflow.load.poller import Poller
from chaosflow.load.redirect import Route
from chaosflow.load.requests import Request
from chaosflow.load.stamps import StampClock

_LINGER_S = 1.0
_OURS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)
"""No connection, but for want of something of this machine's: files, ports, memory. The service has no part in it."""


class StreamingClient:
    """Sends requests to one target. One per process; its greenlets share it."""

    def __init__(
        self,
        order: LoadOrder,
        count_tokens: Callable[[str], int] | None = None,
        *,
        keep_text: bool = False,
    ) -> None:
        """``count_tokens``: of a text, by the model's tokenizer; used where the server sends no usage.

        ``keep_text``: ``fetch`` returns what was answered.
        """
        parts = urlsplit(order.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._url = order.url
        self._where = order.connect or (host, port)
        self._tls = (ssl.create_default_context(), host) if parts.scheme == "https" else None
        plan = order.plan
        self._deadline_s = plan.deadline
        self._connect_timeout_s = plan.connect_timeout
        self._idle_timeout_ns = round(plan.idle_timeout * 1e9) if plan.idle_timeout else 0
        self._count_tokens = count_tokens
        self._keep_text = keep_text or count_tokens is not None
        self._addresses: list[Address] = []
        if plan.unix_socket and order.connect is None:
            self._addresses = [Address(socket.AF_UNIX, plan.unix_socket)]
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self.own_limit_hits = 0
        """How often requests met a limit of this machine: no fault of the service."""
        self._told: dict[str, bool] = {}
        self.clock = StampClock()
        self._poller = Poller(self.clock)

    def fetch(self, record: RequestRecord, request: Request) -> str:
        """Carry out one request and fill its record; returns when it is resolved.

        Returns the text that came, where it is kept; else an empty one. Raises nothing but GreenletExit: a
        greenlet killed in here leaves its record ``cancelled``, unless it had just ended.
        """
        jumps = self.clock.jumps
        record.asked_tokens = request.asked_tokens
        under_way = _UnderWay()
        deadline_s = self._deadline_s if request.deadline_s is None else request.deadline_s
        left_s = (record.sched_ns - time.monotonic_ns()) / 1e9 + deadline_s
        try:
            with gevent.Timeout(max(0.001, left_s)):
                self._attempt_until_heard(record, request, under_way)
        except gevent.Timeout:
            under_way.give_up(record, Outcome.DEADLINE, f"took longer than {deadline_s:g} s")
        except gevent.GreenletExit:
            under_way.give_up(record, Outcome.CANCELLED, "the run ended first")
            raise
        finally:
            record.clock_jump = self.clock.jumps != jumps
            under_way.leave()
        return self._counted(record, under_way)

    def news(self) -> list[str]:
        """What a person should know and has not been told yet."""
        fresh = [text for text, told in self._told.items() if not told]
        self._told |= dict.fromkeys(fresh, True)
        return fresh

    def _counted(self, record: RequestRecord, under_way: _UnderWay) -> str:
        text = under_way.exchange.text if under_way.exchange is not None else ""
        if self._count_tokens is not None:
            record.counted_tokens = self._count_tokens(text) if text else 0
            if not record.tokens_by_usage:
                record.tokens = record.counted_tokens
        return text

    def _attempt_until_heard(self, record: RequestRecord, request: Request, under_way: _UnderWay) -> None:
        route = Route(self._url, request.wire)
        while True:
            connection = self._connection(record)
            if connection is None:
                return
            done = Event()
            exchange = Exchange(
                record,
                done.set,
                # a server may close an idle connection just as it is reused: not a failure of the service
                retry_silence=connection.used,
                follow=route.follow,
                abort_after_tokens=request.abort_after_tokens,
                keep_text=self._keep_text,
            )
            under_way.connection, under_way.exchange = connection, exchange
            try:
                connection.begin(exchange, route.wire)
                self._await(exchange, done, request.abort_after_s)
            except OSError as e:
                exchange.fail(Outcome.RESET, e.strerror or str(e), time.monotonic_ns())
                connection.close()
            if not exchange.stale:
                break
            connection.abandon(exchange)  # unless the rest of a redirect has come
        if route.hops:
            self._told.setdefault(
                "requests are redirected, and take the longer for it: see target.url", False
            )

    def _await(self, exchange: Exchange, done: Event, abort_after_s: float | None) -> None:
        if abort_after_s is None:
            self._await_bytes(exchange, done)
            return
        alarm = gevent.Timeout.start_new(abort_after_s)
        try:
            self._await_bytes(exchange, done)
        except gevent.Timeout as e:
            if e is not alarm:
                raise
            exchange.cancel(f"the client hung up after {abort_after_s:g} s, as planned", time.monotonic_ns())
        finally:
            alarm.close()

    def _await_bytes(self, exchange: Exchange, done: Event) -> None:
        """Until it is resolved; a silence longer than the idle timeout resolves it."""
        limit_ns = self._idle_timeout_ns
        if not limit_ns:
            done.wait()
            return
        begun_ns = time.monotonic_ns()
        while not exchange.resolved:
            now_ns = time.monotonic_ns()
            silent_ns = now_ns - max(begun_ns, exchange.last_byte_ns)
            if silent_ns >= limit_ns:
                exchange.fail(Outcome.DEADLINE, f"silent for {limit_ns / 1e9:g} s (idle_timeout)", now_ns)
                return
            done.wait((limit_ns - silent_ns) / 1e9)

    def _connection(self, record: RequestRecord) -> Connection | None:
        """An idle connection, or a new one; None (and a record that says why) where there is none."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        try:
            self._addresses = self._addresses or resolve(*self._where)
        except OSError as e:
            _not_connected(record, e.strerror or str(e))
            return None
        error = ""
        for place, address in enumerate(self._addresses):
            connection = Connection(self._poller, self._idle.append, self._forget)
            self._open.add(connection)
            try:
                connection.open(address, self._connect_timeout_s, self._tls)
            except (OSError, ssl.SSLError) as e:
                error = e.strerror or str(e)
                if e.errno in _OURS:
                    self.own_limit_hits += 1
                    self._told.setdefault(
                        f"this machine's own limit was reached: {error} (ulimit -n, ports)", False
                    )
                    break
            except gevent.Timeout as e:  # the request's own deadline
                error = f"no connection within {e.seconds:.3g} s"
                break
            else:
                self._addresses.insert(0, self._addresses.pop(place))  # the one that answers comes first
                return connection
        _not_connected(record, error)
        return None

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.close()
        self._poller.close()
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
