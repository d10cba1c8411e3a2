"""``stream.duplicate``: events of a stream come twice."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamDuplicate(StreamFault):
    """A relay that sends again after a retry of its own: the copy follows its original at once."""

    kind: ClassVar[str] = "stream.duplicate"
    toxic_type: ClassVar[str] = "sse_duplicate"
    did: ClassVar[str] = "events sent twice"

    at_event: int = Field(2, ge=1)
    """The first content event of a stream that comes twice."""
    events: int | None = Field(1, ge=1)
    """How many from there on; null: all."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had {attributes['at_event']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamDuplicate.look(undo)
