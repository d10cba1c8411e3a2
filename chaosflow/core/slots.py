"""Mergeable cells: what a load worker makes of its samples every second.

Cells merge by addition, so one worker and forty give the same sums. Counts are exact;
histograms are for display (relative error <= 0.5 %) and decide nothing but relative limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from chaosflow.core.columns import Ints, Numbers, Table
from chaosflow.core.histogram import Histogram
from chaosflow.core.worst import BadRequest, keep_worst

CELLS_FILE = "cells.jsonl.gz"
"""Below a run's folder: its batches, one a line."""


@dataclass(slots=True)
class Cell:
    """Samples and exceedances of one objective in one second of one segment.

    A relative limit is two limits: the higher decides ``fail``, the lower ``pass``; an absolute
    one is both. An interval stamp is counted at both ends: ``*_low`` certain, ``*_high`` possible.
    """

    n: int = 0
    fail_low: int = 0
    fail_high: int = 0
    pass_low: int = 0
    pass_high: int = 0

    def add(self, other: Cell) -> None:
        self.n += other.n
        self.fail_low += other.fail_low
        self.fail_high += other.fail_high
        self.pass_low += other.pass_low
        self.pass_high += other.pass_high


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """One-second blocks of one objective in one segment, in order of their second; one array entry a block."""

    second: Ints
    n: Ints
    fail_low: Ints
    fail_high: Ints
    pass_low: Ints
    pass_high: Ints

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, Cell]]) -> Blocks:
        """From (second, cell) in order."""
        rows = [(s, c.n, c.fail_low, c.fail_high, c.pass_low, c.pass_high) for s, c in pairs]
        return cls(*np.array(rows, np.int64).reshape(len(rows), 6).T)

    def __len__(self) -> int:
        return len(self.second)

    def __iter__(self) -> Iterator[tuple[int, Cell]]:
        for second, *cell in zip(*(a.tolist() for a in self._arrays()), strict=True):
            yield second, Cell(*cell)

    def part(self, chosen: slice) -> Blocks:
        """The blocks of those places."""
        return Blocks(*(a[chosen] for a in self._arrays()))

    def total(self) -> Cell:
        return Cell(*(int(a.sum()) for a in self._arrays()[1:]))

    def _arrays(self) -> tuple[Ints, ...]:
        return self.second, self.n, self.fail_low, self.fail_high, self.pass_low, self.pass_high


@dataclass(slots=True)
class Count:
    """What else is counted in one second of one segment."""

    scheduled: int = 0
    """Arrivals wanted, by their scheduled second."""
    fired: int = 0
    """Arrivals carried out, by their scheduled second."""
    resolved: int = 0
    """Requests of the cohort that ended (good or bad), by the second of their end."""
    failed: int = 0
    complete: int = 0
    tokens: int = 0
    """Output tokens by arrival, of streams that did not fail (so far)."""
    failed_tokens: int = 0
    events: int = 0
    interval_events: int = 0
    """Content events whose arrival is known only as an interval."""

    def add(self, other: Count) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass(slots=True)
class CellBatch:
    """What one worker sends in one go; ``second`` counts from the start of the load."""

    worker: str
    seq: int
    """1, 2, 3 …: a missing or repeated number is noticed."""
    watermark_ns: int
    """Everything resolved up to this monotonic instant is in this batch or an earlier one."""
    cells: dict[tuple[int, str, int], Cell] = field(default_factory=dict)
    """(second, segment, objective index)."""
    counts: dict[tuple[int, str], Count] = field(default_factory=dict)
    """(second, segment)."""
    by_second: dict[tuple[int, str], Histogram] = field(default_factory=dict)
    """(second, metric): ttft, gap, e2e of successes, client_lag; for the live view and charts."""
    by_segment: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    """(segment, metric): the same, per segment."""
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)
    """(segment, outcome)."""
    worst: list[BadRequest] = field(default_factory=list)
    """Requests that came among the worker's worst since the last batch."""
    in_flight: int = 0
    """Gauge: requests under way at the watermark."""
    final: bool = False
    """The worker's last batch."""
    health: dict[str, float] = field(default_factory=dict)
    """Gauges of the worker: ``rss_bytes``, ``loop_lag_p99_s``, ``user_stamps``, ``clock_jumps``, ``cap_hits``."""

    def to_wire(self) -> dict[str, Any]:
        return {
            "worker": self.worker,
            "seq": self.seq,
            "watermark_ns": self.watermark_ns,
            "cells": [
                [*k, c.n, c.fail_low, c.fail_high, c.pass_low, c.pass_high] for k, c in self.cells.items()
            ],
            "counts": [[*k, *(getattr(c, f.name) for f in fields(Count))] for k, c in self.counts.items()],
            "by_second": [[*k, h.to_wire()] for k, h in self.by_second.items()],
            "by_segment": [[*k, h.to_wire()] for k, h in self.by_segment.items()],
            "outcomes": [[*k, n] for k, n in self.outcomes.items()],
            "worst": [asdict(r) for r in self.worst],
            "in_flight": self.in_flight,
            "final": self.final,
            "health": self.health,
        }

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> CellBatch:
        return cls(
            worker=wire["worker"],
            seq=wire["seq"],
            watermark_ns=wire["watermark_ns"],
            cells={(s, g, o): Cell(*rest) for s, g, o, *rest in wire["cells"]},
            counts={(s, g): Count(*rest) for s, g, *rest in wire["counts"]},
            by_second={(s, m): Histogram.from_wire(h) for s, m, h in wire["by_second"]},
            by_segment={(g, m): Histogram.from_wire(h) for g, m, h in wire["by_segment"]},
            outcomes={(g, o): n for g, o, n in wire["outcomes"]},
            worst=[BadRequest(**r) for r in wire["worst"]],
            in_flight=wire["in_flight"],
            final=wire["final"],
            health=dict(wire["health"]),
        )


@dataclass(slots=True)
class CellStore:
    """All batches of a run, merged. Memory grows by some 20 bytes per second and objective, not by request."""

    cells: Table[tuple[int, str, int], Cell] = field(default_factory=lambda: Table(Cell))
    """(second, segment, objective index)."""
    counts: Table[tuple[int, str], Count] = field(default_factory=lambda: Table(Count))
    """(second, segment), ``*`` = all of them once."""
    by_segment: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)
    recent: dict[tuple[int, str], Histogram] = field(default_factory=dict)
    """by_second of the last ``keep_s`` seconds."""
    median_s: Numbers[tuple[int, str]] = field(default_factory=Numbers)
    """(second, metric) -> median in s, kept for the whole run."""
    keep_s: int = 120
    batches: dict[str, int] = field(default_factory=dict)
    """worker -> last seq."""
    watermarks: dict[str, int] = field(default_factory=dict)
    worst: list[BadRequest] = field(default_factory=list)
    """See ``keep_worst``."""
    faults_seen: list[str] = field(default_factory=list)
    """Batches lost or repeated, in words: any of them makes the run invalid."""

    def merge(self, batch: CellBatch) -> bool:
        """Add a batch; False (and nothing added) when it is a repeat."""
        last = self.batches.get(batch.worker, 0)
        if batch.seq <= last:
            self.faults_seen.append(f"worker {batch.worker}: batch {batch.seq} came twice")
            return False
        if batch.seq != last + 1:
            self.faults_seen.append(
                f"worker {batch.worker}: batches {last + 1} to {batch.seq - 1} are missing"
            )
        self.batches[batch.worker] = batch.seq
        self.watermarks[batch.worker] = batch.watermark_ns
        for cell_key, cell in batch.cells.items():
            self.cells.add(cell_key, cell)
        for count_key, count in batch.counts.items():
            self.counts.add(count_key, count)
        for segment_key, histogram in batch.by_segment.items():
            self.by_segment.setdefault(segment_key, Histogram()).merge(histogram)
        for outcome_key, times in batch.outcomes.items():
            self.outcomes[outcome_key] = self.outcomes.get(outcome_key, 0) + times
        if batch.worst:
            self.worst = keep_worst([*self.worst, *batch.worst])
        for second_key, histogram in batch.by_second.items():
            merged = self.recent.setdefault(second_key, Histogram())
            merged.merge(histogram)
            median = merged.quantile_ns(0.5)
            if median is not None:
                self.median_s[second_key] = median / 1e9
        self._forget_old()
        return True

    def _forget_old(self) -> None:
        if not self.recent:
            return
        newest = max(second for second, _ in self.recent)
        for key in [k for k in self.recent if k[0] < newest - self.keep_s]:
            del self.recent[key]

    def total(self, segment: str, objective: int) -> Cell:
        """Sum of one objective's cells in one segment."""
        return self.cells.total(segment, objective)

    def blocks(self, segment: str, objective: int) -> Blocks:
        """One-second blocks of one objective in one segment, in order."""
        column = self.cells.column(segment, objective)
        if column is None:
            return Blocks.of([])
        return Blocks(column.seconds(), *column.rows[column.seen].T.astype(np.int64))

    def last_second(self) -> int:
        """The newest second in which anything was counted; -1 = none."""
        columns = (self.counts.column(*name) for name in self.counts.names())
        return max((c.first + c.length - 1 for c in columns if c is not None and c.length), default=-1)

    def window(self, metric: str, seconds: Iterable[int]) -> Histogram:
        """The last seconds of one metric, merged (live view, abort rules)."""
        merged = Histogram()
        for second in seconds:
            if (histogram := self.recent.get((second, metric))) is not None:
                merged.merge(histogram)
        return merged
