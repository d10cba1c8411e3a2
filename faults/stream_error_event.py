"""``stream.error_event``: an error event within a stream that began with a 200."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamErrorEvent(StreamFault):
    """Generation that fails after the headers are out: the status says success, the stream says error."""

    kind: ClassVar[str] = "stream.error_event"
    toxic_type: ClassVar[str] = "sse_error"
    did: ClassVar[str] = "error events sent"

    after_events: int = Field(1, ge=0)
    """Content events of one response that come before it."""
    code: int = Field(500, ge=400, le=599)
    message: str = Field("The server had an error while processing your request", min_length=1)
    then: Literal["done", "clean", "cut", "go_on"] = "done"
    """``done``: ``[DONE]`` and the response's end, as vLLM does; ``clean``: its end without ``[DONE]``; ``cut``: the
    connection is closed; ``go_on``: the stream continues."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return f"no stream had {attributes['after_events']} content events"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamErrorEvent.look(undo)
