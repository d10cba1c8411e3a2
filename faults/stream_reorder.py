"""``stream.reorder``: an event of a stream comes behind the one that follows it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamReorder(StreamFault):
    """A gateway with several workers and no order. The last content event of a stream cannot be swapped."""

    kind: ClassVar[str] = "stream.reorder"
    toxic_type: ClassVar[str] = "sse_reorder"
    did: ClassVar[str] = "events swapped"

    at_event: int = Field(2, ge=1)
    """The content event that comes after the next one."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had more than {attributes['at_event']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamReorder.look(undo)
