"""``stream.coalesce``: n content events come in one write: streaming that is only pretended."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamCoalesce(StreamFault):
    """A buffering gateway. No byte is lost; time to first token and gaps grow, tokens come in bursts."""

    kind: ClassVar[str] = "stream.coalesce"
    toxic_type: ClassVar[str] = "sse_coalesce"
    did: ClassVar[str] = "writes of several events"

    events: int = Field(8, ge=2)
    """Content events in one write; a large number: the whole answer at its end."""
    hold_ms: float | None = Field(None, gt=0, le=3_600_000)
    """No event waits longer than this."""

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamCoalesce.look(undo)
