"""Which streamed responses a toxic acts on: by path, by count, by probability."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from chaosflow.faults.proxy.lane import Lane
from chaosflow.faults.proxy.request import path_matches
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class StreamAttributes(Attributes):
    """Which streamed responses are acted on."""

    probability: float = Field(1.0, gt=0, le=1)
    """Share of them."""
    path: str | None = None
    """Only answers to requests of this path, ``*`` stands for anything."""
    count: int | None = Field(None, ge=1)
    """At most so many, since the toxic was added."""


class StreamToxic(Toxic):
    """A toxic that acts on server-sent events. The file of each says how."""

    stream: Literal["downstream"] = "downstream"
    attributes: Any
    """A StreamAttributes."""

    def choose(self, lane: Lane) -> bool:
        """Whether to act on the stream that begins; counts ``streams`` seen and ``chosen``."""
        wanted: StreamAttributes = self.attributes
        if not path_matches(lane.wire.request, wanted.path):
            return False
        self.stats.add("streams")
        if wanted.count is not None and self.stats.more.get("chosen", 0) >= wanted.count:
            return False
        if lane.wire.rng.random() >= wanted.probability:
            return False
        self.stats.add("chosen")
        return True
