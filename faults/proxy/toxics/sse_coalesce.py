"""``sse_coalesce``: ``events`` content events come in one write, as if streaming were only pretended."""

from __future__ import annotations

import time
from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage
from chaosflow.faults.proxy.timers import Timer


class SseCoalesceAttributes(StreamAttributes):
    events: int = Field(8, ge=2)
    """Content events in one write; a large number: the whole answer at its end."""
    hold_ms: float | None = Field(None, gt=0)
    """The first of them waits no longer than this."""


class SseCoalesceToxic(StreamToxic):
    type: ClassVar[str] = "sse_coalesce"

    attributes: SseCoalesceAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseCoalesceStage(lane, self)


class SseCoalesceStage(StreamStage):
    """Keeps events back until there are enough, the response ends, or time is up."""

    toxic: SseCoalesceToxic

    def __init__(self, lane: Lane, toxic: SseCoalesceToxic) -> None:
        super().__init__(lane, toxic)
        self._kept: list[bytes] = []
        self._tokens = 0
        self._patience: Timer | None = None

    def event(self, event: Event) -> None:
        if not event.number and not self._kept:
            self.write(event.raw)  # the role chunk, say, comes as it came
            return
        self._keep(event)
        if self._tokens >= self.toxic.attributes.events:
            self._write_kept()

    def finish(self) -> None:
        self._write_kept()

    def give_back(self) -> None:
        self._write_kept()

    def end(self, *, reset: bool) -> None:
        self._write_kept()
        super().end(reset=reset)

    def cancel(self) -> None:
        self._forget()
        super().cancel()

    def _keep(self, event: Event) -> None:
        if not self._kept and (hold_ms := self.toxic.attributes.hold_ms) is not None:
            due_ns = time.monotonic_ns() + round(hold_ms * 1e6)
            self._patience = self.lane.wire.timers.at(due_ns, self._time_is_up)
        self._kept.append(event.raw)
        self._tokens += bool(event.number)

    def _time_is_up(self) -> None:
        self._write_kept()
        self.pump()

    def _write_kept(self) -> None:
        if self._tokens > 1:
            self.toxic.stats.add("acted")
        kept = self._forget()
        self.write(kept)

    def _forget(self) -> bytes:
        if self._patience:
            self._patience.cancel()
            self._patience = None
        kept, self._kept, self._tokens = b"".join(self._kept), [], 0
        return kept
