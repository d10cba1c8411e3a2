"""Log-bucketed counts that merge by addition: for display, and for the limits that a baseline fixes.

Relative error <= 0.5 %. They decide nothing else: what decides is counted exactly (chaosflow.core.slots).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_ERROR = 0.005
_LOG_GAMMA = math.log((1 + _ERROR) / (1 - _ERROR))


def value_of_bucket_ns(bucket: int) -> float:
    """The value that stands for all of a histogram's bucket."""
    return 0.0 if bucket < 0 else 2 * math.exp(bucket * _LOG_GAMMA) / (1 + math.exp(_LOG_GAMMA))


class Histogram:
    """Log-bucketed counts of non-negative ns values (the DDSketch mapping, arXiv 1908.10693)."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self.counts: dict[int, int] = counts if counts is not None else {}
        self.total = sum(self.counts.values())

    def add(self, value_ns: float, times: int = 1) -> None:
        bucket = math.ceil(math.log(value_ns) / _LOG_GAMMA) if value_ns >= 1 else -1
        self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.total += times

    def merge(self, other: Histogram) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total

    def quantile_ns(self, q: float) -> float | None:
        """Nearest rank, x_(ceil(q n)); None when empty."""
        return self.rank_ns(max(1, math.ceil(q * self.total)))

    def rank_ns(self, rank: int) -> float | None:
        """The rank-th smallest value (1-based); None when there are not so many."""
        return self.ranks_ns([rank])[0]

    def ranks_ns(self, ranks: Sequence[int]) -> list[float | None]:
        """Several ranks (1-based, ascending) in one pass; None for one that there is not."""
        found: list[float | None] = []
        buckets, seen, bucket = iter(sorted(self.counts)), 0, -1
        for rank in ranks:
            while seen < rank <= self.total:
                bucket = next(buckets)
                seen += self.counts[bucket]
            found.append(value_of_bucket_ns(bucket) if 1 <= rank <= self.total else None)
        return found

    def to_wire(self) -> list[list[int]]:
        return [list(self.counts), list(self.counts.values())]

    @classmethod
    def from_wire(cls, wire: list[list[int]]) -> Histogram:
        return cls(dict(zip(wire[0], wire[1], strict=True)))
