"""Filled parts of a chart: confidence bands and stacks, as few points as a screen can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from chaosflow.core.result import ProbeSeries, Series
from chaosflow.reports.chartspec import Area
from chaosflow.reports.downsample import Column, column_of

_POINTS = 300


def confidence_area(series: Series, name: str, label: str, colour: str) -> Area | None:
    """The 95 % band of one percentile, only where it is bounded on both sides; None where it nowhere is.

    Of many seconds the band that is drawn holds all of theirs.
    """
    low = column_of(getattr(series, f"{name}_low_ms"))
    high = column_of(getattr(series, f"{name}_high_ms"))
    t = column_of(series.t_s)
    if not len(t) or len(low) != len(t) or len(high) != len(t):
        return None
    missing = np.isnan(low) | np.isnan(high)
    if missing.all():
        return None
    low[missing] = high[missing] = np.nan
    return Area(label, colour, 0.18, *_bucketed(t, low, high))


def _bucketed(t: Column, low: Column, high: Column) -> tuple[Column, Column, Column]:
    if len(t) <= _POINTS:
        return t, low, high
    edges = np.linspace(0, len(t), _POINTS + 1).astype(int)
    parts = [(a, b) for a, b in pairwise(edges) if b > a]
    lows = np.array([_or_nan(low[a:b], np.nanmin) for a, b in parts], dtype=np.float32)
    highs = np.array([_or_nan(high[a:b], np.nanmax) for a, b in parts], dtype=np.float32)
    return np.array([t[a] for a, _ in parts], dtype=np.float32), lows, highs


def _or_nan(part: Column, what: Callable[[Column], Any]) -> float:
    return float("nan") if np.isnan(part).all() else float(what(part))


def stacked_areas(series: Mapping[str, ProbeSeries], colours: Mapping[str, str]) -> tuple[Area, ...]:
    """One area for each series, each upon the sum of those before; means of up to 300 stretches of time.

    All series must have been read at the same moments; those that were not are left out.
    """
    first = next(iter(series.values()))
    t = column_of(first.t_s)
    below = np.zeros(len(t), dtype=np.float32)
    found = []
    for name, probe in series.items():
        values = column_of(probe.value)
        if len(values) != len(t):
            continue
        above = below + np.nan_to_num(values)
        found.append(Area(name, colours[name], 0.75, *_means(t, below, above)))
        below = above
    return tuple(found)


def _means(t: Column, low: Column, high: Column) -> tuple[Column, Column, Column]:
    if len(t) <= _POINTS:
        return t, low, high
    edges = np.linspace(0, len(t), _POINTS + 1).astype(int)[:-1]
    widths = np.diff(np.append(edges, len(t)))
    lows, highs = (np.add.reduceat(c, edges) / widths for c in (low, high))
    return t[edges], lows.astype(np.float32), highs.astype(np.float32)


def outline(area: Area) -> tuple[Column, Column]:
    """x and y of its border, forth along ``high`` and back along ``low``; NaN between one stretch and the next."""
    holes = np.isnan(area.high) | np.isnan(area.low)
    xs: list[Column] = []
    ys: list[Column] = []
    for begin, end in _stretches(holes):
        t = area.t[begin:end]
        gap = np.array([np.nan], dtype=np.float32)
        xs += [t, t[::-1], gap]
        ys += [area.high[begin:end], area.low[begin:end][::-1], gap]
    if not xs:
        return np.array([], dtype=np.float32), np.array([], dtype=np.float32)
    return np.concatenate(xs[:-1]), np.concatenate(ys[:-1])


def _stretches(holes: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([True], holes, [True])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
