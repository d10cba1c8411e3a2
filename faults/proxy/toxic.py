"""What a toxic is: validated attributes, a stage for each lane it acts on, and counts of what it did."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from chaosflow.faults.proxy.lane import Lane, Stage

Stream = Literal["downstream", "upstream"]


@dataclass(slots=True)
class Stats:
    """What one toxic has done on all connections since it was added."""

    connections: int = 0
    chunks: int = 0
    bytes: int = 0
    held_bytes: int = 0
    """Held right now."""
    added_ns: int = field(default_factory=time.monotonic_ns)
    more: dict[str, float] = field(default_factory=dict)
    """What only this toxic counts."""

    def add(self, key: str, value: float = 1) -> None:
        self.more[key] = self.more.get(key, 0) + value

    def to_json(self) -> dict[str, Any]:
        return {
            "connections": self.connections,
            "chunks": self.chunks,
            "bytes": self.bytes,
            "held_bytes": self.held_bytes,
            "installed_s": (time.monotonic_ns() - self.added_ns) / 1e9,
            **self.more,
        }


@dataclass(slots=True)
class Moments:
    """Mean and standard deviation of a stream of values, in ms, without keeping them (Welford)."""

    n: int = 0
    mean: float = 0.0
    _m2: float = 0.0

    def add(self, value: float) -> None:
        self.n += 1
        delta = value - self.mean
        self.mean += delta / self.n
        self._m2 += delta * (value - self.mean)

    @property
    def sd(self) -> float:
        return math.sqrt(self._m2 / self.n) if self.n else 0.0


class Attributes(BaseModel):
    """Parameters of a toxic, under the names that Toxiproxy gives them."""

    model_config = ConfigDict(extra="forbid")


class Toxic(BaseModel, ABC):
    """One named toxic of one proxy. Adding one: a file in ``toxics/`` with a subclass of this."""

    model_config = ConfigDict(extra="forbid")

    type: ClassVar[str]

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    stream: Stream = "downstream"
    toxicity: float = Field(1.0, ge=0, le=1)
    """Share of the connections that it acts on; decided once for each."""
    attributes: Any
    _stats: Stats = PrivateAttr(default_factory=Stats)

    @property
    def stats(self) -> Stats:
        return self._stats

    @abstractmethod
    def stage(self, lane: Lane) -> Stage:
        """A new stage that acts on this lane from now on."""

    def figures(self) -> dict[str, Any]:
        """``stats`` of the JSON form; a subclass adds what only it measures."""
        return self._stats.to_json()

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **self.model_dump(), "stats": self.figures()}
