"""``stream.reject``: requests are answered 429 or 503 with Retry-After, and never reach the server."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._stream import StreamFault


class StreamReject(StreamFault):
    """A rate limit or an overloaded gateway, in bursts or steadily. The connection stays open.

    ``probability``, ``path`` and ``count`` are those of requests here.
    """

    kind: ClassVar[str] = "stream.reject"
    toxic_type: ClassVar[str] = "http_reject"
    did: ClassVar[str] = "requests rejected"
    what: ClassVar[str] = "requests"
    acts_on: ClassVar[str] = "requests, answered by the proxy instead of the server"
    cannot: ClassVar[str] = "A request half sent at the injection passes."
    requires: ClassVar[str] = "an HTTP/1.1 server without TLS"

    status: int = Field(429, ge=400, le=599)
    retry_after_s: int | None = Field(1, ge=0)
    """The Retry-After header; null: none."""
    burst_ms: float | None = Field(None, gt=0, le=86_400_000)
    pause_ms: float | None = Field(None, gt=0, le=86_400_000)
    """With both: reject for ``burst_ms``, let through for ``pause_ms``, and so on, from the injection."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.burst_ms is None) != (self.pause_ms is None):
            raise ValueError("burst_ms and pause_ms belong together: give both, or neither")
        return self

    def streams(self) -> tuple[str, ...]:
        return ("upstream",)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamReject.look(undo)
