"""``stream.stall``: a token stream stands still after k content events, at a token boundary."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import ToxicFault, waiting

_PATIENCE_S = 10.0


class StreamStall(ToxicFault):
    """A stream that hangs as if the engine had, with the connection open. No byte is lost.

    Works on HTTP/1.1 with server-sent events. Streams open at the injection count their events from then.
    """

    kind: ClassVar[str] = "stream.stall"

    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass."""
    stall_ms: float | None = Field(None, gt=0, le=86_400_000)
    """How long each stall lasts; without it, until the revert."""
    probability: float = Field(1.0, gt=0, le=1)
    """Share of the responses that stall."""

    def resource(self, host: Any) -> frozenset[str]:
        return frozenset({"proxy:downstream"})

    def toxic(self) -> dict[str, Any]:
        return {"type": "sse_stall", "attributes": self.model_dump()}

    @staticmethod
    def judge(toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        stalls, holding = int(stats.get("stalls", 0)), int(stats.get("holding", 0))
        events, k = int(stats.get("events", 0)), toxic["attributes"]["after_events"]
        if stalls:
            return Effect(
                True, f"{stalls} streams stalled, {holding} of them now, {events} content events seen"
            )
        if not stats["chunks"]:
            return Effect(True, waiting(stats))
        text = f"no stream has stalled in {stats['installed_s']:.0f} s: {events} content events seen"
        if stats["installed_s"] < _PATIENCE_S or toxic["attributes"]["probability"] < 1:
            return Effect(True, f"installed; {text}")
        return Effect(False, f"{text}, none was number {k} of its stream")

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamStall.look(undo)
