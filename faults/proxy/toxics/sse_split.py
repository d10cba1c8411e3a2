"""``sse_split``: a UTF-8 character is cut in two: its bytes come in two chunks, with time between them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseSplitAttributes(StreamAttributes):
    gap_ms: float = Field(2, gt=0, le=60_000)
    """Between the two halves."""
    anywhere: bool = False
    """Cut an event without such a character too, in its middle."""


class SseSplitToxic(StreamToxic):
    type: ClassVar[str] = "sse_split"

    attributes: SseSplitAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseSplitStage(lane, self)


class SseSplitStage(StreamStage):
    """Only the cuts change, no byte of the body: a client that decodes each read alone shows its fault."""

    toxic: SseSplitToxic

    def event(self, event: Event) -> None:
        cut = cut_at(event.raw, anywhere=self.toxic.attributes.anywhere) if event.number else 0
        if not cut:
            self.write(event.raw)
            return
        self.toxic.stats.add("acted")
        self.write(event.raw[:cut])
        self.write(event.raw[cut:], delay_ns=round(self.toxic.attributes.gap_ms * 1e6))


def cut_at(raw: bytes, *, anywhere: bool) -> int:
    """Offset within the first character of more than one byte; else the middle, or 0 where not ``anywhere``."""
    if not raw.isascii():
        return next(i for i, byte in enumerate(raw) if byte >= 0x80) + 1
    return len(raw) // 2 if anywhere else 0
