"""``http_reject``: requests are answered with an error status, and never reach the server."""

from __future__ import annotations

import json
import time
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaosflow.faults.proxy.choice import StreamAttributes
from chaosflow.faults.proxy.head import Head
from chaosflow.faults.proxy.http1 import RequestReader
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.request import Request
from chaosflow.faults.proxy.toxic import Toxic

_REASONS = {429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}  # fmt: skip
_ERRORS = {
    429: ("rate_limit_error", "Rate limit reached for requests"),
    503: ("server_error", "The server is overloaded or not ready yet"),
}


class HttpRejectAttributes(StreamAttributes):
    """``probability``, ``path`` and ``count`` are those of requests here."""

    status: int = Field(429, ge=400, le=599)
    retry_after_s: int | None = Field(1, ge=0)
    """In the Retry-After header; None: no such header."""
    burst_ms: float | None = Field(None, gt=0)
    pause_ms: float | None = Field(None, gt=0)
    """With both: reject for ``burst_ms``, let through for ``pause_ms``, and so on, from when it was added."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.burst_ms is None) != (self.pause_ms is None):
            raise ValueError("burst_ms and pause_ms belong together: give both, or neither")
        return self


class HttpRejectToxic(Toxic):
    type: ClassVar[str] = "http_reject"

    stream: Literal["upstream"] = "upstream"
    attributes: HttpRejectAttributes

    def stage(self, lane: Lane) -> Stage:
        return HttpRejectStage(lane, self)

    def in_burst(self) -> bool:
        wanted = self.attributes
        if wanted.burst_ms is None or wanted.pause_ms is None:
            return True
        since_ms = (time.monotonic_ns() - self.stats.added_ns) / 1e6
        return since_ms % (wanted.burst_ms + wanted.pause_ms) < wanted.burst_ms

    def answer(self) -> bytes:
        """A whole response, with the error body of OpenAI's servers."""
        status = self.attributes.status
        kind, message = _ERRORS.get(status, ("server_error", _REASONS.get(status, "Error")))
        error = {"message": message, "type": kind, "param": None, "code": status}
        body = json.dumps({"error": error}).encode()
        wait = self.attributes.retry_after_s
        retry = "" if wait is None else f"Retry-After: {wait}\r\n"
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\nContent-Type: application/json\r\n"
            f"{retry}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class HttpRejectStage(Stage):
    """Swallows a whole request and answers it itself; the connection stays open."""

    def __init__(self, lane: Lane, toxic: HttpRejectToxic) -> None:
        super().__init__(lane)
        self._toxic = toxic
        self._reader = RequestReader(self, from_start=lane.bytes == 0)
        self._swallowing = False

    def feed(self, data: bytes) -> None:
        self._toxic.stats.chunks += 1
        self._toxic.stats.bytes += len(data)
        self._reader.feed(data)
        if self.released and not self._swallowing:
            self._let_go()

    def end(self, *, reset: bool) -> None:
        self.raw(self._reader.let_go())
        self.next.end(reset=reset)

    def release(self) -> None:
        if not self._swallowing:
            self._let_go()

    def cancel(self) -> None:
        pass

    def raw(self, data: bytes) -> None:
        if data:
            self.next.feed(data)

    def head(self, head: Head) -> bool:
        self._toxic.stats.add("requests")
        self._swallowing = not self.released and self._chosen(
            Request(head.first[0], head.first[1].partition("?")[0])
        )
        if self._swallowing and head.headers.get("expect", "").lower() == "100-continue":
            self.lane.wire.answer(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self._swallowing

    def resumed(self) -> bool:
        return False

    def body(self, data: bytes) -> None:
        pass

    def body_end(self, trailer: bytes) -> None:
        self._swallowing = False
        self._toxic.stats.add("acted")
        self.lane.wire.answer(self._toxic.answer())

    def bodiless(self) -> bool:
        return False

    def _let_go(self) -> None:
        self.raw(self._reader.let_go())
        self.leave()

    def _chosen(self, request: Request) -> bool:
        wanted, stats = self._toxic.attributes, self._toxic.stats
        if not request.matches(wanted.path):
            return False
        stats.add("streams")
        if not self._toxic.in_burst() or stats.more.get("chosen", 0) >= (wanted.count or float("inf")):
            return False
        if self.lane.wire.rng.random() >= wanted.probability:
            return False
        stats.add("chosen")
        return True
