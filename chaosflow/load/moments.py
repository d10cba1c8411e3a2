"""Where on the time axis a sample falls, and the cells it falls into."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from chaosflow.core.histogram import Histogram
from chaosflow.core.segments import Mark, SegmentMap
from chaosflow.core.slots import Cell, CellBatch, Count

ALL = "*"
"""The segment name under which counts stand once, whatever segments a request belongs to."""
NS_PER_S = 1_000_000_000


class SegmentIndex:
    """``SegmentMap.at`` by bisection: between two marks nothing changes."""

    def __init__(self) -> None:
        self.map = SegmentMap()
        self._edges: list[int] = []
        self._names: list[tuple[str, ...]] | None = None

    def add(self, mark: Mark) -> None:
        self.map.add(mark)
        self._edges = sorted({*self._edges, mark.at_ns})
        self._names = None

    @property
    def edges(self) -> list[int]:
        """The moments at which segments may change, in order."""
        return self._edges

    def at(self, at_ns: int) -> tuple[str, ...]:
        if self._names is None:
            before = self._edges[0] - 1 if self._edges else at_ns
            self._names = [self.map.at(t) for t in (before, *self._edges)]
        return self._names[bisect_right(self._edges, at_ns)]


@dataclass(slots=True)
class Moment:
    """Everything that one second of one set of segments counts into, looked up once."""

    counts: list[Count]
    gap_histograms: list[Histogram]
    gap_cells: dict[int, list[Cell]] = field(default_factory=dict)
    """By objective index."""


class CellSheet:
    """The batch being filled, with the lookups that the hot path needs."""

    def __init__(self, worker: str, t0_ns: int, relative: frozenset[int] = frozenset()) -> None:
        """``relative``: the objectives whose measure is the baseline; they have no cells in it."""
        self._worker, self._t0_ns, self._relative = worker, t0_ns, relative
        self._seq = 0
        self._fresh()

    def _fresh(self) -> None:
        self._batch = CellBatch(self._worker, self._seq + 1, 0)
        self._moments: dict[tuple[int, tuple[str, ...]], Moment] = {}

    @property
    def t0_ns(self) -> int:
        return self._t0_ns

    def second(self, at_ns: int) -> int:
        return (at_ns - self._t0_ns) // NS_PER_S

    def moment(self, second: int, segments: tuple[str, ...]) -> Moment:
        key = (second, segments)
        found = self._moments.get(key)
        if found is None:
            found = Moment(
                [self.count(second, segment) for segment in (*segments, ALL)],
                [self.by_second(second, "gap"), *(self.by_segment(s, "gap") for s in segments)],
            )
            self._moments[key] = found
        return found

    def gap_cells(self, moment: Moment, second: int, segments: tuple[str, ...], objective: int) -> list[Cell]:
        cells = moment.gap_cells.get(objective)
        if cells is None:
            cells = self.cells(second, segments, objective)
            moment.gap_cells[objective] = cells
        return cells

    def cells(self, second: int, segments: tuple[str, ...], objective: int) -> list[Cell]:
        """The cells of one objective in those segments."""
        cells = self._batch.cells
        return [
            cells.setdefault((second, segment, objective), Cell())
            for segment in segments
            if objective not in self._relative or segment != "baseline"
        ]

    def count(self, second: int, segment: str) -> Count:
        return self._batch.counts.setdefault((second, segment), Count())

    def by_second(self, second: int, metric: str) -> Histogram:
        return self._batch.by_second.setdefault((second, metric), Histogram())

    def by_segment(self, segment: str, metric: str) -> Histogram:
        return self._batch.by_segment.setdefault((segment, metric), Histogram())

    def outcome(self, segment: str, outcome: str) -> None:
        key = (segment, outcome)
        self._batch.outcomes[key] = self._batch.outcomes.get(key, 0) + 1

    def take(
        self, watermark_ns: int, in_flight: int, health: dict[str, float], *, final: bool = False
    ) -> CellBatch:
        """The batch so far; a new one begins."""
        batch = self._batch
        batch.watermark_ns, batch.in_flight, batch.final = watermark_ns, in_flight, final
        batch.health = health
        for by in (batch.by_second, batch.by_segment):
            for key in [k for k, h in by.items() if not h.total]:
                del by[key]  # type: ignore[arg-type]
        self._seq += 1
        self._fresh()
        return batch
