"""One request and its streamed response, fed with bytes and stamps; does no I/O itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import httptools

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.parse import classify
from chaosflow.load.sse import SseParser


class Exchange:
    """Fills a RequestRecord. ``on_resolved`` is called once, when the outcome is known.

    The response may go on after that (data after ``[DONE]`` is ignored); ``message_complete`` says when the
    connection is free again.
    """

    def __init__(
        self, record: RequestRecord, on_resolved: Callable[[], None], *, retry_silence: bool = False
    ) -> None:
        """``retry_silence``: a close before the first byte makes it ``stale`` and leaves the record open."""
        self.record = record
        self._retry_silence = retry_silence
        self.stale = False
        self._on_resolved = on_resolved
        self._http = httptools.HttpResponseParser(self)
        self._sse = SseParser()
        self._body: list[bytes] = []
        self._content_type = b""
        self._encoding = b""
        self._at_ns = 0
        self.resolved = False
        self.headers_complete = False
        self.message_complete = False
        self.keep_alive = False
        self.bytes_seen = 0

    # -- httptools callbacks
    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"content-type":
            self._content_type = value.lower()
        elif lower == b"content-encoding":
            self._encoding = value.lower()

    def on_headers_complete(self) -> None:
        status = self._http.get_status_code()
        if status >= 200:  # 1xx announces the real response
            self.record.status = status
            self.record.headers_ns = self._at_ns
            self.headers_complete = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self.headers_complete:
            self.message_complete = True
            self.keep_alive = self._http.should_keep_alive()

    # -- what the connection reports
    def feed(self, data: bytes, at_ns: int, low_ns: int, *, one_segment: bool) -> None:
        """Bytes of one read: the newest came at ``at_ns``, none before ``low_ns``.

        ``one_segment``: all of them came in one TCP segment, so that every event in it is exact.
        """
        self.bytes_seen += len(data)
        self._at_ns = at_ns
        try:
            self._http.feed_data(data)
        except httptools.HttpParserError as e:
            self._fail(Outcome.UNPARSEABLE, f"response is no HTTP: {e}", at_ns)
            self.keep_alive = False
            return
        body = b"".join(self._body) if len(self._body) != 1 else self._body[0]
        self._body.clear()
        if self.resolved or not self.headers_complete:
            return
        if not self._refused(body, at_ns) and body:
            self._feed_events(body, at_ns, low_ns, one_segment)
        if self.message_complete and not self.resolved:
            self.ended(at_ns)

    def _refused(self, body: bytes, at_ns: int) -> bool:
        status = self.record.status
        if status >= 300:
            self._fail(Outcome.HTTP, f"status {status}: {body[:300].decode(errors='replace')}", at_ns)
        elif self._encoding not in (b"", b"identity"):
            self._fail(
                Outcome.UNPARSEABLE, f"compressed response ({self._encoding.decode()}), unasked", at_ns
            )
        elif self._content_type.startswith(b"application/json"):
            self._fail(
                Outcome.UNPARSEABLE, f"not an event stream: {body[:300].decode(errors='replace')}", at_ns
            )
        return self.resolved

    def _feed_events(self, body: bytes, at_ns: int, low_ns: int, one_segment: bool) -> None:
        try:
            events = self._sse.feed(body)
            last = len(events) - 1
            for place, (event_type, data) in enumerate(events):
                exact = one_segment or (place == last and not self._sse.trailing)
                self._take(event_type, data, at_ns, at_ns if exact else low_ns)
                if self.resolved:
                    return
        except ValueError as e:
            self._fail(Outcome.UNPARSEABLE, str(e), at_ns)

    def _take(self, event_type: bytes, data: bytes, at_ns: int, low_ns: int) -> None:
        piece = classify(event_type, data)
        record = self.record
        if piece.token:
            record.event_ns.append(at_ns)
            record.event_low_ns.append(low_ns)
            if not record.tokens_by_usage:
                record.tokens += 1
        if piece.usage_tokens is not None and piece.usage_tokens > 0:
            record.tokens, record.tokens_by_usage = piece.usage_tokens, True
        if piece.finish_reason:
            record.finish_reason = piece.finish_reason
        if piece.error:
            self._fail(Outcome.ERROR_EVENT, piece.error, at_ns)
        elif piece.done:
            record.saw_done = True
            self._finish(at_ns)

    def release(self) -> None:
        """No byte will come any more: break the cycle with the parser, or memory waits for the collector."""
        del self._http

    def ended(self, at_ns: int) -> None:
        """The response ended, or the peer closed in an orderly way."""
        if self.resolved:
            return
        if not self.headers_complete:
            self._fail(Outcome.TRUNCATED, "closed without a response", at_ns)
            return
        if (left := self._sse.flush()) is not None:
            with contextlib.suppress(ValueError):  # cut in mid-event: truncated, as below
                self._take(*left, at_ns, at_ns)  # a last event without its blank line
        if self.record.finish_reason:
            self._finish(at_ns)
        else:
            seen = len(self.record.event_ns)
            self._fail(Outcome.TRUNCATED, f"ended after {seen} events without [DONE] or finish_reason", at_ns)

    def fail(self, outcome: Outcome, error: str, at_ns: int) -> None:
        """The connection failed; does nothing once resolved."""
        if not self.resolved:
            self._fail(outcome, error, at_ns)

    def _finish(self, at_ns: int) -> None:
        if self.resolved:
            return
        if self.record.event_ns:
            self._resolve(Outcome.OK, at_ns)
        else:
            self._fail(Outcome.TRUNCATED, "ended without a single token", at_ns)

    def _fail(self, outcome: Outcome, error: str, at_ns: int) -> None:
        if self.resolved:
            return
        if self._retry_silence and not self.bytes_seen and outcome in (Outcome.RESET, Outcome.TRUNCATED):
            self.stale = self.resolved = True
            self._on_resolved()
            return
        self.record.error = error
        self._resolve(outcome, at_ns)

    def _resolve(self, outcome: Outcome, at_ns: int) -> None:
        self.resolved = True
        self.record.outcome = outcome
        self.record.end_ns = at_ns
        self._on_resolved()
