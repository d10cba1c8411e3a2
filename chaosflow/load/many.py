"""Many samples at once: one by one, counting them would cost more than receiving them did."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np
import numpy.typing as npt

from chaosflow.core.histogram import Histogram
from chaosflow.load.moments import NS_PER_S, CellSheet, Moment, SegmentIndex

Ints = npt.NDArray[np.int64]

_LOG_GAMMA = log(1.005 / 0.995)
"""Of slots.Histogram: its buckets, computed for many values at once."""


def by_moment(
    sheet: CellSheet, segments: SegmentIndex, at: Ints
) -> Iterator[tuple[Moment, int, tuple[str, ...], Ints]]:
    """Samples by second and segments: (moment, second, segments, places in ``at``)."""
    edges = segments.edges
    keys = (at - sheet.t0_ns) // NS_PER_S * (len(edges) + 1) + np.searchsorted(edges, at, side="right")
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    for chosen in np.split(order, begins[1:]):
        moment_ns = int(at[chosen[0]])
        second, here = sheet.second(moment_ns), segments.at(moment_ns)
        yield sheet.moment(second, here), second, here, chosen


def add_all(histograms: list[Histogram], values_ns: Ints) -> None:
    """Histogram.add for many values."""
    if not len(values_ns):
        return
    buckets = np.full(len(values_ns), -1, dtype=np.int64)
    above = values_ns >= 1
    buckets[above] = np.ceil(np.log(values_ns[above]) / _LOG_GAMMA)
    found, times = np.unique(buckets, return_counts=True)
    for histogram in histograms:
        for bucket, n in zip(found.tolist(), times.tolist(), strict=True):
            histogram.counts[bucket] = histogram.counts.get(bucket, 0) + n
        histogram.total += len(values_ns)
