"""``stream.corrupt``: events of a stream arrive damaged."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamCorrupt(StreamFault):
    """A broken relay or encoder. HTTP's framing and the other events stay whole."""

    kind: ClassVar[str] = "stream.corrupt"
    toxic_type: ClassVar[str] = "sse_corrupt"
    did: ClassVar[str] = "events damaged"

    at_event: int = Field(2, ge=1)
    """The first content event of a stream that is damaged."""
    events: int | None = Field(1, ge=1)
    """How many from there on; null: all."""
    damage: Literal["json", "utf8", "field"] = "json"
    """``json``: the last brace is missing; ``utf8``: a byte that is no UTF-8 in the text; ``field``: no ``data:``
    line any more, so that the event is silently lost."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had {attributes['at_event']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamCorrupt.look(undo)
