"""Fewer rows for a chart, without losing a peak or a dip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.float32]


def column_of(values: Sequence[float | None]) -> Column:
    """Numbers as a column; NaN where there is none or no finite one."""
    column = np.array([np.nan if v is None else v for v in values], dtype=np.float32)
    column[~np.isfinite(column)] = np.nan
    return column


def downsample(t: Column, columns: Mapping[str, Column], max_rows: int) -> tuple[Column, dict[str, Column]]:
    """At most ``max_rows`` rows of ``t`` (n,) and of every column (n,); unchanged where there are no more.

    Every bucket of rows becomes two, at its own first and last time: each column's minimum and maximum,
    in the order in which they came. So all columns keep one shared ``t``, and a one-second spike in a
    day is still drawn at its full height. NaN (no sample) is passed over, unless a bucket has nothing else.
    """
    n = len(t)
    if n <= max_rows:
        return t, dict(columns)
    edges = np.linspace(0, n, max(2, max_rows // 2) + 1).astype(int)
    buckets = [(int(a), int(b)) for a, b in pairwise(edges) if b > a]
    fewer_t = np.array([t[i] for a, b in buckets for i in (a, b - 1)], dtype=np.float32)
    return fewer_t, {name: _extremes(values, buckets) for name, values in columns.items()}


def _extremes(values: Column, buckets: list[tuple[int, int]]) -> Column:
    kept = np.full(2 * len(buckets), np.nan, dtype=np.float32)
    for row, (a, b) in enumerate(buckets):
        part = values[a:b]
        if np.isnan(part).all():
            continue
        low, high = int(np.nanargmin(part)), int(np.nanargmax(part))
        kept[2 * row], kept[2 * row + 1] = part[min(low, high)], part[max(low, high)]
    return kept
