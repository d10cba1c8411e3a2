"""Segments and windows in whole seconds of the store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.segments import SegmentMap, Span
from chaosflow.core.slots import Blocks

MIN_WINDOW_S = 5
"""A verdict window shorter than this has too few blocks to tell a burst from a failing service."""


def span_of(segments: SegmentMap, name: str) -> Span | None:
    """The span of a segment; None when it was never reached."""
    return next((s for s in segments.spans() if s.name == name and s.kind != "edge"), None)


@dataclass(frozen=True, slots=True)
class Seconds:
    """A span in seconds from second 0 of the store."""

    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.end_s - self.begin_s)

    def whole(self) -> range:
        """The whole seconds inside: those a boundary cuts are left out."""
        return range(math.ceil(self.begin_s), max(math.ceil(self.begin_s), math.floor(self.end_s)))


def seconds_of(span: Span | None, t0_ns: int, ended_ns: int | None) -> Seconds | None:
    """None when the segment was never reached; an open span ends with the run."""
    if span is None:
        return None
    end_ns = span.end_ns if span.end_ns is not None else ended_ns
    if end_ns is None:
        end_ns = span.begin_ns
    return Seconds((span.begin_ns - t0_ns) / NS_PER_S, (end_ns - t0_ns) / NS_PER_S)


def window_length_s(window_s: float, segment_s: float) -> float:
    """Verdict windows are min(``sla.window``, a third of the segment)."""
    return min(window_s, segment_s / 3)


def tumbling(blocks: Blocks, seconds: Seconds | None, window_s: float) -> list[Blocks]:
    """The blocks in verdict windows; empty where the segment is too short to hold two of them.

    A request that ends after its segment counts in the last window.
    """
    if seconds is None:
        return []
    length_s = window_length_s(window_s, seconds.length_s)
    if length_s < MIN_WINDOW_S:
        return []
    count = max(2, int(seconds.length_s / length_s + 1e-9))
    places = np.clip(((blocks.second + 0.5 - seconds.begin_s) / length_s).astype(np.int64), 0, count - 1)
    edges = np.searchsorted(places, np.arange(count + 1))
    return [blocks.part(slice(begin, end)) for begin, end in pairwise(edges.tolist())]
