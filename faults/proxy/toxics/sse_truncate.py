"""``sse_truncate``: a stream ends after ``after_events`` content events, without its end."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseTruncateAttributes(StreamAttributes):
    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass."""
    ending: Literal["clean", "cut", "reset"] = "clean"
    """``clean``: the HTTP response is complete, only ``[DONE]`` and tokens are missing; ``cut``: the
    connection is closed in the middle of the response; ``reset``: by RST."""


class SseTruncateToxic(StreamToxic):
    type: ClassVar[str] = "sse_truncate"

    attributes: SseTruncateAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseTruncateStage(lane, self)


class SseTruncateStage(StreamStage):
    """Ends the connection in every case, so that the server stops too."""

    toxic: SseTruncateToxic

    def event(self, event: Event) -> None:
        self.write(event.raw)
        if event.number == self.toxic.attributes.after_events:
            self.toxic.stats.add("acted")
            self.end_here(self.toxic.attributes.ending)
