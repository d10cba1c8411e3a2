"""``sse_drop_done``: the stream ends without ``data: [DONE]``."""

from __future__ import annotations

from typing import ClassVar

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage
from chaosflow.faults.proxy.sse import has_finish_reason, is_done


class SseDropDoneAttributes(StreamAttributes):
    finish_reason: bool = False
    """Drop the event with the finish_reason too: then nothing says that the answer is complete."""


class SseDropDoneToxic(StreamToxic):
    type: ClassVar[str] = "sse_drop_done"

    attributes: SseDropDoneAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseDropDoneStage(lane, self)


class SseDropDoneStage(StreamStage):
    """All else comes, and the HTTP response ends in order."""

    toxic: SseDropDoneToxic

    def event(self, event: Event) -> None:
        if is_done(event.payload):
            self.toxic.stats.add("acted")
        elif self.toxic.attributes.finish_reason and has_finish_reason(event.payload):
            self.toxic.stats.add("finish_reasons")
        else:
            self.write(event.raw)
