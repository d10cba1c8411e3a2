"""``stream.drop_done``: streams end without ``data: [DONE]``."""

from __future__ import annotations

from typing import ClassVar

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamDropDone(StreamFault):
    """All else comes, and the HTTP response ends in order."""

    kind: ClassVar[str] = "stream.drop_done"
    toxic_type: ClassVar[str] = "sse_drop_done"
    did: ClassVar[str] = "[DONE] events dropped"

    finish_reason: bool = False
    """Drop the event with the finish_reason too: then nothing says that the answer is complete."""

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamDropDone.look(undo)
