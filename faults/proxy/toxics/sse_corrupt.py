"""``sse_corrupt``: events arrive damaged."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage

Damage = Literal["json", "utf8", "field"]


class SseCorruptAttributes(StreamAttributes):
    at_event: int = Field(2, ge=1)
    """The first content event that is damaged."""
    events: int | None = Field(1, ge=1)
    """How many from there on; None: all."""
    damage: Damage = "json"
    """``json``: the last brace is missing; ``utf8``: a byte that is no UTF-8 stands in the text; ``field``: the
    line is no ``data:`` line any more, so that the event is silently lost."""


class SseCorruptToxic(StreamToxic):
    type: ClassVar[str] = "sse_corrupt"

    attributes: SseCorruptAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseCorruptStage(lane, self)


class SseCorruptStage(StreamStage):
    """The framing of HTTP and of the other events stays whole."""

    toxic: SseCorruptToxic

    def event(self, event: Event) -> None:
        wanted = self.toxic.attributes
        last = None if wanted.events is None else wanted.at_event + wanted.events - 1
        if event.number < wanted.at_event or (last is not None and event.number > last):
            self.write(event.raw)
            return
        self.toxic.stats.add("acted")
        self.write(damaged(event.raw, wanted.damage))


def damaged(raw: bytes, damage: Damage) -> bytes:
    """An event's bytes, with the blank line behind it kept."""
    if damage == "field":
        return raw.replace(b"data:", b"dta:")
    head, brace, tail = raw.rpartition(b"}")
    if damage == "json":
        return head + tail
    quote = head.rfind(b'"')
    return (
        head[:quote] + b"\xff" + head[quote:] + brace + tail if quote >= 0 else head + b"\xff" + brace + tail
    )
