"""``sse_duplicate``: an event comes twice."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseDuplicateAttributes(StreamAttributes):
    at_event: int = Field(2, ge=1)
    """The first content event that comes twice."""
    events: int | None = Field(1, ge=1)
    """How many from there on; None: all."""


class SseDuplicateToxic(StreamToxic):
    type: ClassVar[str] = "sse_duplicate"

    attributes: SseDuplicateAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseDuplicateStage(lane, self)


class SseDuplicateStage(StreamStage):
    """The copy follows its original at once, byte for byte, ``id:`` line included."""

    toxic: SseDuplicateToxic

    def event(self, event: Event) -> None:
        self.write(event.raw)
        wanted = self.toxic.attributes
        last = None if wanted.events is None else wanted.at_event + wanted.events - 1
        if event.number >= wanted.at_event and (last is None or event.number <= last):
            self.toxic.stats.add("acted")
            self.write(event.raw)
