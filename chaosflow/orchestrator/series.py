"""The charts' data, built second by second as the run goes on: percentiles with intervals, rates, heat maps.

Memory is bounded: of a run of more than four hours the series keep minima and maxima of buckets, and the columns of a heat
map grow wider. Every second goes to ``on_row`` before that.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chaosflow.core.histogram import Histogram, value_of_bucket_ns
from chaosflow.core.result import HeatMap, Series
from chaosflow.core.slots import CellStore, Count
from chaosflow.reports.downsample import downsample

SLIDING_S = 10
METRICS = ("ttft", "gap", "e2e")
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
KEPT_ROWS = 7200
"""At least so many rows are kept of a long run; up to twice as many before they are thinned out."""
COLUMNS = tuple(n for n in Series.model_fields if n not in ("window_s", "reduced"))
"""Of one row; the first is ``t_s``."""
_Z = 1.96
Row = tuple[float | None, ...]


class SeriesBuilder:
    """One row per second, built when the second can no longer change."""

    def __init__(self, first_second_s: float, on_row: Callable[[Row], None] | None = None) -> None:
        """``first_second_s``: second 0 of the store, on the result's axis."""
        self._columns = {name: array("f") for name in COLUMNS}
        self._next = 0
        self._shift_s = first_second_s
        self._on_row = on_row
        self._reduced = False
        self._heat = {metric: HeatBuilder(metric) for metric in METRICS}

    def extend(
        self, store: CellStore, last_second: int, in_flight: Mapping[int, int], whole: int | None = None
    ) -> None:
        """Add rows up to ``last_second`` (counted from the start of the load).

        From second ``whole`` on there is no rate: the load ended within that second, and what came in a part of it
        would look like a fall.
        """
        while self._next <= last_second:
            cut = whole is not None and self._next >= whole
            self._row(store, self._next, in_flight.get(self._next, 0), cut=cut)
            self._next += 1

    def _row(self, store: CellStore, second: int, in_flight: int, *, cut: bool) -> None:
        count = store.counts.get((second, "*"), Count())
        row: list[float | None] = [round(second + self._shift_s, 3)]
        seconds = range(second - SLIDING_S + 1, second + 1)
        for metric in METRICS:
            row += quantiles_with_intervals(store.window(metric, seconds))
            if (histogram := store.recent.get((second, metric))) is not None:
                self._heat[metric].add(second, histogram)
        row += [None] * 3 if cut else [count.tokens, count.resolved, count.failed]
        row.append(in_flight)
        window = store.counts.between(seconds.start, seconds.stop, "*")
        row.append(100 * window.failed / window.resolved if window.resolved else None)
        row.append(_ms(store.window("client_lag", seconds).quantile_ns(0.99)))
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(math.nan if value is None else value)
        if self._on_row is not None:
            self._on_row(tuple(row))
        if len(self._columns["t_s"]) > 2 * KEPT_ROWS:
            self._thin_out()

    def _thin_out(self) -> None:
        t, rest = self._arrays()
        t, rest = downsample(t, rest, KEPT_ROWS)
        self._columns = {name: array("f", values.tobytes()) for name, values in {"t_s": t, **rest}.items()}
        self._reduced = True

    def _arrays(self) -> tuple[Any, dict[str, Any]]:
        columns = {n: np.frombuffer(c, dtype=np.float32).copy() for n, c in self._columns.items()}
        return columns.pop("t_s"), columns

    def result(self) -> Series:
        """What there is so far, in Python's own numbers."""
        data: dict[str, Any] = {name: [_number(v) for v in column] for name, column in self._columns.items()}
        return Series(window_s=SLIDING_S, reduced=self._reduced, **data)

    def heat(self) -> list[HeatMap]:
        """One map for each metric that had samples."""
        return [h.result(self._shift_s) for h in self._heat.values() if not h.empty]


def quantiles_with_intervals(histogram: Histogram) -> list[float | None]:
    """p50, its bounds, p95, its bounds, p99, its bounds in ms: nearest rank, 95 % order-statistic interval.

    The ranks of the bounds are n q -+ 1.96 sqrt(n q (1 - q)) (David and Nagaraja, Order Statistics, 7.1); a bound whose
    rank lies outside the sample is None.
    """
    n = histogram.total
    found: list[float | None] = []
    for _, q in QUANTILES:
        spread = _Z * math.sqrt(n * q * (1 - q))
        middle = max(1, math.ceil(q * n - 1e-9))
        low, high = math.floor(n * q - spread), math.ceil(n * q + spread) + 1
        ranks = sorted({max(low, 0), middle, high})
        by_rank = dict(zip(ranks, histogram.ranks_ns(ranks), strict=True))
        found += [_ms(by_rank[middle]), _ms(by_rank[max(low, 0)]), _ms(by_rank[high])]
    return found


class HeatBuilder:
    """Counts by time and class of one metric; two columns become one whenever there would be more than 200."""

    MOST_COLUMNS = 200
    BUCKETS_A_ROW = 22
    """Histogram buckets (1 % wide) in one class: a factor of 1.25."""
    LEAST = 1152
    """Bucket of 0.1 ms: what is shorter came in one read, and falls into the lowest class."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._first: int | None = None
        self._width_s = 1
        self._cells: dict[tuple[int, int], int] = {}
        """(column, class) -> count."""

    @property
    def empty(self) -> bool:
        return not self._cells

    def add(self, second: int, histogram: Histogram) -> None:
        """Add all that was seen in one second; seconds may leave gaps but not go back before the first."""
        if self._first is None:
            self._first = second
        while (second - self._first) // self._width_s >= self.MOST_COLUMNS:
            self._halve()
        column = (second - self._first) // self._width_s
        for bucket, count in histogram.counts.items():
            key = column, max(self.LEAST, bucket) // self.BUCKETS_A_ROW
            self._cells[key] = self._cells.get(key, 0) + count

    def _halve(self) -> None:
        self._width_s *= 2
        cells, self._cells = self._cells, {}
        for (column, row), count in cells.items():
            key = column // 2, row
            self._cells[key] = self._cells.get(key, 0) + count

    def result(self, shift_s: float) -> HeatMap:
        rows = [row for _, row in self._cells]
        lowest, highest = min(rows), max(rows)
        columns = 1 + max(column for column, _ in self._cells)
        counts = [
            [self._cells.get((column, row), 0) for column in range(columns)]
            for row in range(lowest, highest + 1)
        ]
        edges = [
            round(value_of_bucket_ns(row * self.BUCKETS_A_ROW) / 1e6, 5) for row in range(lowest, highest + 2)
        ]
        return HeatMap(
            metric=self._metric,
            begin_s=round((self._first or 0) + shift_s, 3),
            column_s=self._width_s,
            edges_ms=edges,
            counts=counts,
        )


def csv_header() -> str:
    """The first line of the artifact ``series``."""
    return ",".join(COLUMNS) + "\n"


def csv_line(row: Sequence[float | None]) -> str:
    """One row; a value that there is not is empty."""
    return ",".join("" if v is None else f"{v:g}" for v in row) + "\n"


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else round(value_ns / 1e6, 3)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")
