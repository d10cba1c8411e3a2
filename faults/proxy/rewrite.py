"""Acting on streamed responses event by event, with the HTTP framing kept valid.

A stage reads a server's responses, takes those that it shall act on apart into server-sent events, and writes
each event as an HTTP chunk of its own. All else passes as it is: other responses, other protocols, and the
rest of a response whose framing is not known yet.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from chaosflow.faults.proxy.choice import StreamToxic
from chaosflow.faults.proxy.head import Head
from chaosflow.faults.proxy.http1 import ResponseReader
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.sse import EventSplitter, has_content, payload_of
from chaosflow.faults.proxy.timers import Timer

_FIRE_EARLY_NS = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """One block of the stream, and what it is."""

    raw: bytes
    """With its blank line."""
    payload: bytes
    """Its data; empty for a comment."""
    number: int
    """1 for the first event of the response that carries a token, and so on; 0 for one that carries none."""


@dataclass(frozen=True, slots=True)
class Pause:
    """In the queue: from here on nothing leaves for a while; None: until the toxic is removed."""

    ms: float | None


@dataclass(frozen=True, slots=True)
class _End:
    reset: bool
    whole: bool
    """Both directions end."""


class StreamStage(Stage):
    """A subclass overrides ``event`` and perhaps ``begin``, ``finish`` and ``give_back``."""

    def __init__(self, lane: Lane, toxic: StreamToxic) -> None:
        super().__init__(lane)
        self.toxic = toxic
        self.shift_ns = 0
        """What is written from now on leaves so much later."""
        self._reader = ResponseReader(self, from_start=lane.bytes == 0)
        self._splitter = EventSplitter()
        self.from_begin = False
        """The response that is acted on was seen from its head on."""
        self._number = 0
        self._chunked = self._framed_anew = False
        self._queue: deque[tuple[int, bytes | Pause | _End]] = deque()  # due (0: at once), what
        self._last_due_ns = 0
        self._timer: Timer | None = None
        self._paused_ns = 0
        self._dead = False

    # what a subclass may override

    def begin(self) -> None:
        """A response that is acted on begins; its head is written."""

    def event(self, event: Event) -> None:
        self.write(event.raw)

    def finish(self) -> None:
        """The response is complete: write what is kept back."""

    def give_back(self) -> None:
        """The toxic is removed: write what is kept back."""

    def paused(self) -> None:
        """A Pause has begun."""

    def went_on(self, paused_ns: int) -> None:
        """It has ended, by itself, by the removal or with the connection."""

    # what a subclass calls (and ``pump`` after a write at a time of its own)

    def write(self, data: bytes, *, delay_ns: int = 0) -> None:
        """Bytes of the body, as one chunk where the response has chunks. Order is kept, delayed or not."""
        if data:
            framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
            self._put(framed, delay_ns + self.shift_ns)

    def pause(self, ms: float | None) -> None:
        self._put(Pause(ms), self.shift_ns)

    def end_here(self, how: str) -> None:
        """End the response and the connection: ``clean`` with the last chunk, ``cut`` without, ``reset``."""
        if how == "clean" and self._chunked:
            self._put(b"0\r\n\r\n", self.shift_ns)
        self._put(_End(how == "reset", True), self.shift_ns)
        self._dead = True

    # the lane's side

    def feed(self, data: bytes) -> None:
        if self._dead:
            return
        self.toxic.stats.chunks += 1
        self.toxic.stats.bytes += len(data)
        self._reader.feed(data)
        self.pump()

    def end(self, *, reset: bool) -> None:
        if self._dead:
            return
        if not reset:
            self._reader.finish()
        self._put(self._reader.let_go(), 0)
        self.write(self._splitter.rest())
        self._put(_End(reset, False), 0)
        self.pump()

    def release(self) -> None:
        if not self._dead:
            self.give_back()
            self.write(self._splitter.rest())
        self.shift_ns = 0
        self._queue = deque(item for item in self._queue if not isinstance(item[1], Pause))
        self._go_on()

    def cancel(self) -> None:
        self.toxic.stats.held_bytes -= self.held
        self.held = 0
        self._queue.clear()
        self._stop_pause()
        self._dead = True

    # the reader's side

    def raw(self, data: bytes) -> None:
        self.write(self._splitter.rest())  # only where the framing was lost within a body
        self._put(data, 0)

    def head(self, head: Head) -> bool:
        self.shift_ns = 0
        unchunkable = head.old and head.length is not None
        if self.released or not head.is_event_stream or head.status != 200 or unchunkable:
            return False
        if not self.toxic.choose(self.lane):
            return False
        self._framed_anew = head.length is not None
        self._put(head.as_chunked() if self._framed_anew else head.raw, 0)
        self._start(chunked=head.chunked or self._framed_anew, from_begin=True)
        return True

    def resumed(self) -> bool:
        if self.released or not self.toxic.choose(self.lane):
            return False
        self._start(chunked=True, from_begin=False)
        return True

    def body(self, data: bytes) -> None:
        if self._dead:
            return
        if self.released:
            self.write(data)
            return
        for block in self._splitter.feed(data):
            self._take(block)

    def _take(self, block: bytes) -> None:
        if self._dead:
            return
        payload = payload_of(block)
        number = 0
        if has_content(payload):
            self._number = number = self._number + 1
            self.toxic.stats.add("events")
        self.event(Event(block, payload, number))

    def body_end(self, trailer: bytes) -> None:
        if self._dead:
            return
        self.write(self._splitter.rest())
        self.finish()
        if self._chunked and not self._dead:
            self._put(b"0\r\n" + trailer + b"\r\n", self.shift_ns)
        self._chunked = self._framed_anew = False

    def bodiless(self) -> bool:
        request = self.lane.wire.request
        return request is not None and request.method == "HEAD"

    def _start(self, *, chunked: bool, from_begin: bool) -> None:
        self._chunked, self.from_begin = chunked, from_begin
        self._number = 0
        self._splitter = EventSplitter()
        self.begin()

    # the queue

    def _put(self, item: bytes | Pause | _End, delay_ns: int) -> None:
        if isinstance(item, bytes):
            if not item:
                return
            self.held += len(item)
            self.toxic.stats.held_bytes += len(item)
        if delay_ns:
            self._last_due_ns = max(self._last_due_ns, time.monotonic_ns() + delay_ns)
        self._queue.append((self._last_due_ns, item))

    def pump(self) -> None:
        """Pass on what is due, in as few pieces as possible."""
        ready: list[bytes] = []
        while self._queue and not self._timer and not self._paused_ns:
            due_ns, item = self._queue[0]
            if due_ns and due_ns > time.monotonic_ns() + _FIRE_EARLY_NS:
                self._timer = self.lane.wire.timers.at(due_ns, self._due)
                break
            self._queue.popleft()
            if isinstance(item, bytes):
                ready.append(item)
                continue
            self._pass(ready)
            if isinstance(item, Pause):
                self._begin_pause(item)
            elif item.whole:
                self.end_connection(reset=item.reset)
            else:
                self.next.end(reset=item.reset)
        self._pass(ready)
        self.lane.pressure()
        if self.released and not self._queue and not self._dead and not self._framed_anew:
            self._leave_between_chunks()

    def _leave_between_chunks(self) -> None:
        if self._reader.between_chunks:
            self.leave()

    def _pass(self, ready: list[bytes]) -> None:
        if ready:
            data = b"".join(ready)
            ready.clear()
            self.held -= len(data)
            self.toxic.stats.held_bytes -= len(data)
            self.next.feed(data)

    def _due(self) -> None:
        self._timer = None
        self.pump()

    def _begin_pause(self, pause: Pause) -> None:
        self._paused_ns = time.monotonic_ns()
        self.paused()
        if pause.ms is not None:
            self._timer = self.lane.wire.timers.at(self._paused_ns + round(pause.ms * 1e6), self._go_on)

    def _go_on(self) -> None:
        self._stop_pause()
        self.pump()

    def _stop_pause(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._paused_ns:
            paused_ns = time.monotonic_ns() - self._paused_ns
            self._paused_ns = 0
            self.went_on(paused_ns)
