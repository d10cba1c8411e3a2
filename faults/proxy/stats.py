"""What a toxic counts of what it did, on all connections."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any


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
