"""One request and its streamed response, fed with bytes and stamps; does no I/O itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import httptools

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.parse import classify
from chaosflow.load.shape import TokenShape
from chaosflow.load.sse import Event, SseParser


class Exchange:
    """Fills a RequestRecord. ``on_resolved`` is called once, when the outcome is known.

    The response may go on after that (data after ``[DONE]`` is ignored); ``message_complete`` says when the
    connection is free again.
    """

    def __init__(
        self,
        record: RequestRecord,
        on_resolved: Callable[[], None],
        *,
        retry_silence: bool = False,
        follow: Callable[[int, str], bool] | None = None,
        abort_after_tokens: int = 0,
        keep_text: bool = False,
    ) -> None:
        """``retry_silence``: a close before the first byte makes it ``stale`` and leaves the record open.
        ``follow``: asked about a redirect (status, location); true makes it ``stale`` too.
        ``abort_after_tokens``: resolve as cancelled when so many events have come. ``keep_text``: for ``text``.
        """
        self.record = record
        self._retry_silence, self._follow = retry_silence, follow
        self._abort_after = abort_after_tokens
        self._texts: list[str] | None = [] if keep_text else None
        self.stale = False
        """The request is to be sent again, and nothing was said about it."""
        self._on_resolved = on_resolved
        self._http = httptools.HttpResponseParser(self)
        self._sse = SseParser()
        self._shape = TokenShape()
        self._body: list[bytes] = []
        self._content_type = b""
        self._encoding = b""
        self._location = b""
        self._at_ns = 0
        self.resolved = False
        self.headers_complete = False
        self.message_complete = False
        self.keep_alive = False
        self.bytes_seen = 0
        self._plain_stream = False
        """Its head was accepted, it is not to be aborted or kept, and no event is half there: the short way."""

    @property
    def text(self) -> str:
        """What came so far, with ``keep_text``."""
        return "".join(self._texts or ())

    @property
    def last_byte_ns(self) -> int:
        """When the newest byte came; 0 = none did."""
        return self._at_ns

    # -- httptools callbacks
    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"content-type":
            self._content_type = value.lower()
        elif lower == b"content-encoding":
            self._encoding = value.lower()
        elif lower == b"location":
            self._location = value

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
        parts = self._body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self._plain_stream and (size := self._shape.text_of_block(body)):
            record = self.record  # nearly every read of nearly every stream: one token
            record.event_ns.append(at_ns)
            record.event_low_ns.append(at_ns)
            record.text_bytes += size
            if not record.tokens_by_usage:
                record.tokens += 1
        elif self.resolved or not self.headers_complete:
            return
        elif not self._refused(body, at_ns) and body:
            self._feed_events(body, at_ns, low_ns, one_segment)
            self._plain_stream = (
                self._sse.idle and not self.resolved and not self._abort_after and self._texts is None
            )
        if self.message_complete and not self.resolved:
            self.ended(at_ns)

    def _refused(self, body: bytes, at_ns: int) -> bool:
        status = self.record.status
        said = body[:300].decode(errors="replace")
        if 300 <= status < 400:
            self._redirected(status, self._location.decode(errors="replace"), at_ns)
        elif status >= 400:
            self._fail(Outcome.HTTP, f"status {status}: {said}", at_ns)
        elif self._encoding not in (b"", b"identity"):
            encoding = self._encoding.decode(errors="replace")
            self._fail(Outcome.UNPARSEABLE, f"compressed response ({encoding}), unasked", at_ns)
        elif self._content_type.startswith(b"application/json"):
            self._fail(Outcome.UNPARSEABLE, f"not an event stream: {said}", at_ns)
        return self.resolved

    def _redirected(self, status: int, where: str, at_ns: int) -> None:
        if self._follow is not None and self._follow(status, where):
            self.stale = self.resolved = True
            self._on_resolved()
            return
        text = f"status {status}, redirected to {where[:300] or 'nowhere'}: ask there directly"
        self._fail(Outcome.HTTP, text, at_ns)

    def _feed_events(self, body: bytes, at_ns: int, low_ns: int, one_segment: bool) -> None:
        try:
            events = self._sse.feed(body)
            if not events:
                return
            if one_segment or low_ns == at_ns:
                self._take_all(events, at_ns, at_ns)
                return
            last = None if self._sse.trailing else events.pop()
            self._take_all(events, at_ns, low_ns)
            if last is not None and not self.resolved:
                self._take_all([last], at_ns, at_ns)
        except ValueError as e:
            self._fail(Outcome.UNPARSEABLE, str(e), at_ns)

    def _take_all(self, events: list[Event], at_ns: int, low_ns: int) -> None:
        """The hot path: events of the known shape are tokens."""
        record, known = self.record, self._shape.text
        for event_type, data in events:
            size = 0 if event_type else known(data)
            if not size:
                self._take(event_type, data, at_ns, low_ns)
                if self.resolved:
                    return
                continue
            record.event_ns.append(at_ns)
            record.event_low_ns.append(low_ns)
            record.text_bytes += size
            if not record.tokens_by_usage:
                record.tokens += 1
            if self._texts is not None:
                self._texts.append(self._shape.text_in(data))
            if self._abort_after and self._abort_due(at_ns):
                return

    def _take(self, event_type: bytes, data: bytes, at_ns: int, low_ns: int) -> None:
        piece = classify(event_type, data)
        record = self.record
        if piece.token:
            record.event_ns.append(at_ns)
            record.event_low_ns.append(low_ns)
            record.text_bytes += len(piece.text.encode(errors="replace"))
            record.other_parts = record.other_parts or not piece.text
            if not record.tokens_by_usage:
                record.tokens += 1
            if self._texts is not None:
                self._texts.append(piece.text)
            self._shape.learn(data, piece)
        if piece.usage_tokens is not None and piece.usage_tokens > 0:
            record.tokens, record.tokens_by_usage = piece.usage_tokens, True
        if piece.finish_reason:
            record.finish_reason = piece.finish_reason
        if piece.error:
            self._fail(Outcome.ERROR_EVENT, piece.error, at_ns)
        elif piece.done:
            record.saw_done = True
            self._finish(at_ns)
        elif self._abort_after:
            self._abort_due(at_ns)

    def _abort_due(self, at_ns: int) -> bool:
        if len(self.record.event_ns) < self._abort_after or self.resolved:
            return False
        self.record.error = f"the client hung up after {self._abort_after} tokens, as planned"
        self._resolve(Outcome.CANCELLED, at_ns)
        return True

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

    def cancel(self, why: str, at_ns: int) -> None:
        """The client gives it up of its own will; does nothing once resolved."""
        if not self.resolved:
            self.record.error = why
            self._resolve(Outcome.CANCELLED, at_ns)

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
        self._plain_stream = False
        self.record.outcome = outcome
        self.record.end_ns = at_ns
        self._on_resolved()
