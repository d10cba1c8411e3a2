"""``sse_stall``: after ``after_events`` content events a stream stands still, at a token boundary."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseStallAttributes(StreamAttributes):
    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass (of an open one: from when the toxic was added)."""
    stall_ms: float | None = Field(None, gt=0)
    """None: until the toxic is removed."""


class SseStallToxic(StreamToxic):
    type: ClassVar[str] = "sse_stall"

    attributes: SseStallAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseStallStage(lane, self)


class SseStallStage(StreamStage):
    """Passes up to the k-th content event, holds the rest for a while, then goes on. No byte is lost."""

    toxic: SseStallToxic

    def event(self, event: Event) -> None:
        self.write(event.raw)
        if event.number == self.toxic.attributes.after_events:
            self.pause(self.toxic.attributes.stall_ms)

    def paused(self) -> None:
        self.toxic.stats.add("acted")
        self.toxic.stats.add("holding")

    def went_on(self, paused_ns: int) -> None:
        self.toxic.stats.add("holding", -1)
        self.toxic.stats.add("stalled_s", paused_ns / 1e9)
