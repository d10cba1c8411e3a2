"""``sse_first_token``: the first token of a stream comes ``delay_ms`` late, and all behind it as much."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseFirstTokenAttributes(StreamAttributes):
    delay_ms: float = Field(gt=0, le=3_600_000)


class SseFirstTokenToxic(StreamToxic):
    type: ClassVar[str] = "sse_first_token"

    attributes: SseFirstTokenAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseFirstTokenStage(lane, self)


class SseFirstTokenStage(StreamStage):
    """As a long queue or a slow prefill looks: time to first token grows, gaps between tokens stay."""

    toxic: SseFirstTokenToxic

    def event(self, event: Event) -> None:
        if event.number == 1 and self.from_begin:
            self.shift_ns = round(self.toxic.attributes.delay_ms * 1e6)
            self.toxic.stats.add("acted")
        self.write(event.raw)
