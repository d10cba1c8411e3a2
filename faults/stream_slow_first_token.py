"""``stream.slow_first_token``: the first token of a stream comes late, and all behind it as much."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamSlowFirstToken(StreamFault):
    """A long queue or a slow prefill: time to first token grows, the gaps between tokens stay as they are.

    Streams open at the injection are not acted on.
    """

    kind: ClassVar[str] = "stream.slow_first_token"
    toxic_type: ClassVar[str] = "sse_first_token"
    did: ClassVar[str] = "first tokens delayed"

    delay_ms: float = Field(gt=0, le=3_600_000)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamSlowFirstToken.look(undo)
