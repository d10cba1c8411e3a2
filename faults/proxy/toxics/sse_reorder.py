"""``sse_reorder``: an event comes behind the one that follows it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseReorderAttributes(StreamAttributes):
    at_event: int = Field(2, ge=1)
    """The content event that comes after the next one."""


class SseReorderToxic(StreamToxic):
    type: ClassVar[str] = "sse_reorder"

    attributes: SseReorderAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseReorderStage(lane, self)


class SseReorderStage(StreamStage):
    """Swaps two content events; what stands between them stays. The last one of a stream is not swapped."""

    toxic: SseReorderToxic

    def __init__(self, lane: Lane, toxic: SseReorderToxic) -> None:
        super().__init__(lane, toxic)
        self._kept: list[bytes] = []

    def event(self, event: Event) -> None:
        if event.number == self.toxic.attributes.at_event and not self._kept:
            self._kept.append(event.raw)
        elif self._kept and event.number:
            self.toxic.stats.add("acted")
            first, *between = self._kept
            self._kept = []
            self.write(event.raw)
            for raw in (*between, first):
                self.write(raw)
        elif self._kept:
            self._kept.append(event.raw)
        else:
            self.write(event.raw)

    def finish(self) -> None:
        kept, self._kept = self._kept, []
        for raw in kept:
            self.write(raw)

    def give_back(self) -> None:
        self.finish()

    def end(self, *, reset: bool) -> None:
        self.finish()
        super().end(reset=reset)
