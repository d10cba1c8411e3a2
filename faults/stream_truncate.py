"""``stream.truncate``: a token stream ends after k content events, without its end."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamTruncate(StreamFault):
    """An engine or a gateway that gives up in mid-answer. The connection ends too, so that the server stops."""

    kind: ClassVar[str] = "stream.truncate"
    toxic_type: ClassVar[str] = "sse_truncate"
    did: ClassVar[str] = "streams truncated"

    after_events: int = Field(1, ge=1)
    """Content events of one response that still pass."""
    ending: Literal["clean", "cut", "reset"] = "clean"
    """``clean``: the HTTP response ends in order, only tokens and ``[DONE]`` are missing; ``cut``: FIN within the
    response; ``reset``: RST."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had {attributes['after_events']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamTruncate.look(undo)
