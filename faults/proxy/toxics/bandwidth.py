"""``bandwidth``: each connection passes at most ``rate`` KB/s (1 KB = 1000 bytes), evenly."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, ClassVar

from pydantic import Field

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.timers import Timer
from chaosflow.faults.proxy.toxic import Attributes, Toxic

_PIECE_S = 0.005
"""A chunk leaves in pieces of at most this much link time."""


class BandwidthAttributes(Attributes):
    rate: float = Field(gt=0, le=1e9)
    """KB/s"""


class BandwidthToxic(Toxic):
    type: ClassVar[str] = "bandwidth"

    attributes: BandwidthAttributes

    def stage(self, lane: Lane) -> Stage:
        return BandwidthStage(lane, self)

    def figures(self) -> dict[str, Any]:
        figures = super().figures()
        busy_s = figures.get("busy_s", 0.0)
        return {**figures, "achieved_rate": self.stats.bytes / busy_s / 1000 if busy_s else None}


class BandwidthStage(Stage):
    """A link that serializes: byte i leaves size/rate after the later of its arrival and byte i-1."""

    limit_bytes = 1 << 16

    def __init__(self, lane: Lane, toxic: BandwidthToxic) -> None:
        super().__init__(lane)
        self._toxic = toxic
        self._queue: deque[bytes | bool] = deque()  # a bool is the end: was it a reset?
        self._timer: Timer | None = None
        self._busy_since_ns = 0
        self._piece = 0

    def feed(self, data: bytes) -> None:
        self._toxic.stats.held_bytes += len(data)
        self._queue.append(data)
        self.hold(len(data))
        if self._timer is None:
            self._busy_since_ns = time.monotonic_ns()
            self._schedule(self._busy_since_ns)

    def end(self, *, reset: bool) -> None:
        if self._queue:
            self._queue.append(reset)
        else:
            self.next.end(reset=reset)

    def release(self) -> None:
        if self._timer:
            self._timer.cancel()
        while self._queue:
            self._pass(self._queue.popleft())
        self.leave()

    def cancel(self) -> None:
        self._toxic.stats.held_bytes -= self.held
        self.held = 0
        self._queue.clear()
        if self._timer:
            self._timer.cancel()

    def _schedule(self, begin_ns: int) -> None:
        """Let the next piece take the link from ``begin_ns`` on."""
        head = self._queue[0]
        bytes_per_s = self._toxic.attributes.rate * 1000
        self._piece = 0 if isinstance(head, bool) else min(len(head), max(1, int(bytes_per_s * _PIECE_S)))
        due_ns = begin_ns + round(self._piece / bytes_per_s * 1e9)
        self._timer = self.lane.wire.timers.at(due_ns, self._fire)

    def _fire(self) -> None:
        now_ns = time.monotonic_ns()
        due_ns = self._timer.due_ns if self._timer else now_ns
        self._timer = None
        head = self._queue.popleft()
        if not isinstance(head, bool) and len(head) > self._piece:
            self._queue.appendleft(head[self._piece :])
            head = head[: self._piece]
        self._toxic.stats.add("busy_s", (now_ns - self._busy_since_ns) / 1e9)
        self._busy_since_ns = now_ns
        if self._queue:
            self._schedule(due_ns)  # from when it was due, so that a late timer does not slow the link
        self._pass(head)
        self.lane.pressure()

    def _pass(self, item: bytes | bool) -> None:
        if isinstance(item, bool):
            self.next.end(reset=item)
            return
        self.held -= len(item)
        self._toxic.stats.held_bytes -= len(item)
        self._toxic.stats.chunks += 1
        self._toxic.stats.bytes += len(item)
        self.next.feed(item)
