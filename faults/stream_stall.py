"""``stream.stall``: a token stream stands still after k content events, at a token boundary."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamStall(StreamFault):
    """A stream that hangs as if the engine had, with the connection open. No byte is lost.

    Works on HTTP/1.1 with server-sent events. Streams open at the injection count their events from then.
    """

    kind: ClassVar[str] = "stream.stall"
    toxic_type: ClassVar[str] = "sse_stall"
    did: ClassVar[str] = "streams stalled"

    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass."""
    stall_ms: float | None = Field(None, gt=0, le=86_400_000)
    """How long each stall lasts; without it, until the revert."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had {attributes['after_events']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamStall.look(undo)
