"""``stream.split_utf8``: characters of several bytes are cut in two, with time between the halves."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamSplitUtf8(StreamFault):
    """No byte of the body changes, only where it is cut: a client that decodes each read alone shows its fault."""

    kind: ClassVar[str] = "stream.split_utf8"
    toxic_type: ClassVar[str] = "sse_split"
    did: ClassVar[str] = "events cut in two"
    acts_on: ClassVar[str] = "where the bytes of an event are cut"
    cannot: ClassVar[str] = (
        "A server that escapes (`\\u20ac`) sends no such character: without `anywhere` not confirmed."
    )

    gap_ms: float = Field(2, gt=0, le=60_000)
    """Between the two halves."""
    anywhere: bool = False
    """Cut an event without such a character too, in its middle."""

    @classmethod
    def why_not(cls, attributes: dict[str, Any]) -> str:
        return "no content event had a character of several bytes (anywhere: true cuts others too)"

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamSplitUtf8.look(undo)
