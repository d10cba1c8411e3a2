"""``sse_stall``: after ``after_events`` content events a stream stands still, at a token boundary."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import Any, ClassVar

import orjson
from pydantic import Field

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.timers import Timer
from chaosflow.faults.proxy.toxic import Attributes, Toxic

_PARTIAL_LIMIT = 1 << 20
_CONTENT = re.compile(
    rb'"(?:content|text|reasoning|reasoning_content)"\s*:\s*"[^"]|"tool_calls"\s*:\s*\[\s*\{'
)


class SseStallAttributes(Attributes):
    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass (of an open one: from when the toxic was added)."""
    stall_ms: float | None = Field(None, gt=0)
    """None: until the toxic is removed."""
    probability: float = Field(1.0, gt=0, le=1)
    """Share of the responses that stall."""


class SseStallToxic(Toxic):
    type: ClassVar[str] = "sse_stall"

    attributes: SseStallAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseStallStage(lane, self)


class SseStallStage(Stage):
    """Passes bytes up to the end of the k-th content event, holds the rest for a while, then goes on."""

    def __init__(self, lane: Lane, toxic: SseStallToxic) -> None:
        super().__init__(lane)
        self._toxic = toxic
        self._events = EventCounter()
        self._queue: deque[bytes | bool] = deque()  # a bool is the end: was it a reset?
        self._timer: Timer | None = None
        self._holding, self._since_ns = False, 0
        self._new_response()

    def feed(self, data: bytes) -> None:
        if self._holding:
            self._keep(data)
        else:
            self._scan(data)

    def end(self, *, reset: bool) -> None:
        if self._holding:
            self._queue.append(reset)
        else:
            self.next.end(reset=reset)

    def release(self) -> None:
        self._events.stop_after = None
        if self._holding:
            self._resume()
        self.leave()

    def cancel(self) -> None:
        if self._holding:
            self._toxic.stats.add("holding", -1)
        self._toxic.stats.held_bytes -= self.held
        self.held = 0
        self._holding = False
        self._queue.clear()
        if self._timer:
            self._timer.cancel()

    def _new_response(self) -> None:
        chosen = not self.released and self.lane.wire.rng.random() < self._toxic.attributes.probability
        self._events.stop_after = self._toxic.attributes.after_events if chosen else None

    def _scan(self, data: bytes) -> None:
        before = self._events.seen
        end = self._events.cut(data, self._new_response)
        self._toxic.stats.add("events", self._events.seen - before)
        head = data if end is None else data[:end]
        self._toxic.stats.chunks += 1
        self._toxic.stats.bytes += len(head)
        if end is not None:
            self._begin_hold()
            if end < len(data):
                self._keep(data[end:])
        self.next.feed(head)

    def _keep(self, data: bytes) -> None:
        self._queue.append(data)
        self._toxic.stats.held_bytes += len(data)
        self._toxic.stats.add("bytes_stalled", len(data))
        self.hold(len(data))

    def _begin_hold(self) -> None:
        self._holding, self._since_ns = True, time.monotonic_ns()
        self._toxic.stats.add("stalls")
        self._toxic.stats.add("holding")
        if (stall_ms := self._toxic.attributes.stall_ms) is not None:
            self._timer = self.lane.wire.timers.at(self._since_ns + round(stall_ms * 1e6), self._resume)

    def _resume(self) -> None:
        stats = self._toxic.stats
        stats.add("holding", -1)
        stats.add("stalled_s", (time.monotonic_ns() - self._since_ns) / 1e9)
        self._holding = False
        if self._timer:
            self._timer.cancel()
        while self._queue and not self._holding:  # what was held may hold the next response, and its stall
            item = self._queue.popleft()
            if isinstance(item, bool):
                self.next.end(reset=item)
            else:
                self.held -= len(item)
                stats.held_bytes -= len(item)
                self._scan_behind(item)
        self.lane.pressure()

    def _scan_behind(self, item: bytes) -> None:
        """Scan one held chunk; what it leaves to hold goes in front of the rest of the queue."""
        rest, self._queue = self._queue, deque()
        self._scan(item)
        self._queue += rest


class EventCounter:
    """Counts content events in the raw bytes of HTTP/1.1 responses with SSE bodies.

    Works on lines, so it can begin in mid-stream and needs no state of the HTTP framing; a chunk header
    that cuts an event in two is at worst a boundary a few bytes early. Lines end with LF or CRLF.
    """

    def __init__(self) -> None:
        self.stop_after: int | None = None
        self.seen = 0
        self._count = 0
        self._content = False
        self._partial = b""

    def cut(self, data: bytes, new_response: Any) -> int | None:
        """Offset in ``data`` just after the event to stop after, else None. Changes no byte.

        After a cut the next call begins with the byte behind it.
        """
        position = 0
        while (newline := data.find(b"\n", position)) >= 0:
            line = (self._partial + data[position:newline]).rstrip(b"\r")
            self._partial, position = b"", newline + 1
            if line.startswith(b"HTTP/1."):
                self._count, self._content = 0, False
                new_response()
            elif line.startswith(b"data:"):
                self._content = self._content or has_content(line[5:])
            elif not line and self._content and self._event_ends():
                # the line end that closes the HTTP chunk goes along
                return position + 2 if data[position : position + 2] == b"\r\n" else position
        self._partial = (self._partial + data[position:])[-_PARTIAL_LIMIT:]
        return None

    def _event_ends(self) -> bool:
        self._content = False
        self.seen += 1
        self._count += 1
        if self.stop_after is not None and self._count >= self.stop_after:
            self.stop_after = None
            return True
        return False


def has_content(payload: bytes) -> bool:
    """Whether the data of an OpenAI-style event carries a token (role, usage and empty chunks do not)."""
    payload = payload.strip()
    if not payload.startswith(b"{"):
        return False
    try:
        choices = orjson.loads(payload).get("choices") or []
        for choice in choices:
            delta = choice.get("delta") or {}
            if choice.get("text") or any(
                delta.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls")
            ):
                return True
    except (orjson.JSONDecodeError, AttributeError):
        return bool(_CONTENT.search(payload))
    return False
