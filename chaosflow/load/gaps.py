"""Content events -> tokens, gaps and stalls, as they arrive and not when their stream ends.

Many events at once, with numpy: one by one they would cost more than receiving them did.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from chaosflow.core.sample import RequestRecord
from chaosflow.core.slo import Objective
from chaosflow.core.slots import Cell
from chaosflow.load.judge import Limits
from chaosflow.load.many import Ints, add_all, by_moment
from chaosflow.load.moments import ALL, CellSheet, Moment, SegmentIndex

Bools = npt.NDArray[np.bool_]

_FIRST = -1
"""Instead of the arrival before, for a stream's first event."""


class StreamTrack(Protocol):
    """What is remembered of a stream from one fold to the next."""

    record: RequestRecord
    seen: int
    stalled: int


class _Pending:
    """Events taken from their streams and not yet counted."""

    def __init__(self) -> None:
        self.at, self.low = array("q"), array("q")
        self.before, self.before_low = array("q"), array("q")
        self.failed: list[tuple[int, int]] = []
        """Ranges of events that belong to failed streams."""
        self.stalled: list[tuple[int, int]] = []
        """(place, bits): the gap before that event has been counted by those objectives."""


class GapFolder:
    """A gap that exceeds the limit is counted where it first does so, any other where it ends.

    So an open stall is seen while it lasts, and the count does not depend on when it is looked at.
    """

    def __init__(
        self,
        sheet: CellSheet,
        segments: SegmentIndex,
        limits: dict[int, Limits],
        objectives: Sequence[tuple[int, Objective]],
    ) -> None:
        """``objectives``: (index, objective) of all; those about gaps are picked."""
        self._sheet, self._segments, self._limits = sheet, segments, limits
        self._long = [i for i, o in objectives if o.metric in ("gap", "stalls")]
        self._short = [i for i, o in objectives if o.metric == "burstiness"]
        self._by_token = [i for i, o in objectives if o.metric == "itl"]
        self._pending = _Pending()

    def fold(self, track: StreamTrack, until_ns: int) -> None:
        """Take the stream's events up to ``until_ns``, and count a stall that is still open there.

        The events are counted by the next ``flush``.
        """
        record = track.record
        arrivals = record.event_ns
        seen, last = track.seen, len(arrivals)
        end = (
            last if last == seen or arrivals[last - 1] <= until_ns else bisect_right(arrivals, until_ns, seen)
        )
        failed = record.end_ns is not None and record.outcome.failed
        if end > seen:
            self._take(track, seen, end, failed)
            track.seen = end
        if self._long and end == last and end:
            self._open_gap(track, until_ns)
        if end == last and record.end_ns is not None and record.end_ns <= until_ns:
            self._correct_tokens(record, record.end_ns, failed)
            if self._by_token and not failed:
                self._fold_itl(record)

    def _take(self, track: StreamTrack, seen: int, end: int, failed: bool) -> None:
        record, pending = track.record, self._pending
        arrivals, lows = record.event_ns, record.event_low_ns
        place = len(pending.at)
        pending.at.extend(arrivals[seen:end])
        pending.low.extend(lows[seen:end])
        if seen:
            pending.before.append(arrivals[seen - 1])
            pending.before_low.append(lows[seen - 1])
            if track.stalled:
                pending.stalled.append((place, track.stalled))
        else:
            pending.before.append(_FIRST)
            pending.before_low.append(_FIRST)
        track.stalled = 0
        pending.before.extend(arrivals[seen : end - 1])
        pending.before_low.extend(lows[seen : end - 1])
        if failed:
            pending.failed.append((place, len(pending.at)))

    @property
    def pending(self) -> int:
        """Events taken, and to be counted by ``flush``."""
        return len(self._pending.at)

    def flush(self) -> None:
        """Count the events that were taken."""
        if not self._pending.at:
            return
        pending, self._pending = self._pending, _Pending()
        at, low = _ints(pending.at), _ints(pending.low)
        before, before_low = _ints(pending.before), _ints(pending.before_low)
        good = np.ones(len(at), dtype=np.bool_)
        for begin, end in pending.failed:
            good[begin:end] = False
        is_gap = before != _FIRST
        for moment, _, _, chosen in by_moment(self._sheet, self._segments, at):
            _count(moment, good[chosen], (low != at)[chosen])
            picked = chosen[is_gap[chosen] & good[chosen]]
            add_all(moment.gap_histograms, at[picked] - before[picked])
        for index in self._long:
            fresh = is_gap.copy()
            for place, bits in pending.stalled:
                fresh[place] &= not bits >> index & 1
            if index in self._limits and fresh.any():
                self._judge(index, at[fresh], low[fresh], before[fresh], before_low[fresh])
        for index in self._short:
            if is_gap.any():
                self._judge_short(index, at[is_gap], low[is_gap], before[is_gap], before_low[is_gap])

    def _judge(self, index: int, at: Ints, low: Ints, before: Ints, before_low: Ints) -> None:
        fail_ns, pass_ns = self._limits[index]
        over_ns = max(fail_ns, pass_ns)
        shortest, longest = low - before, at - before_low
        counted = np.where(shortest > over_ns, before + round(over_ns), at)
        sides = [value > limit for limit in (fail_ns, pass_ns) for value in (shortest, longest)]
        self._count_sides(index, counted, sides)

    def _judge_short(self, index: int, at: Ints, low: Ints, before: Ints, before_low: Ints) -> None:
        least_ns, _ = self._limits[index]
        certain, possible = at - before_low < least_ns, low - before < least_ns
        self._count_sides(index, at, [certain, possible, certain, possible])

    def _fold_itl(self, record: RequestRecord) -> None:
        """Gaps as times per token, where usage shows that every event brought one token; else none."""
        if not record.tokens_by_usage or record.tokens != len(record.event_ns) or record.tokens < 2:
            return
        at, low = _ints(record.event_ns), _ints(record.event_low_ns)
        gaps = at[1:] - at[:-1]
        for index in self._by_token:
            if index in self._limits:
                self._judge(index, at[1:], low[1:], at[:-1], low[:-1])
        for _, _, segments, chosen in by_moment(self._sheet, self._segments, at[1:]):
            add_all([self._sheet.by_segment(s, "itl") for s in segments], gaps[chosen])

    def _count_sides(self, index: int, counted: Ints, sides: list[Bools]) -> None:
        """``sides``: exceedances as Cell has them, after n."""
        for moment, second, segments, chosen in by_moment(self._sheet, self._segments, counted):
            sums = [len(chosen), *(int(np.count_nonzero(side[chosen])) for side in sides)]
            more = Cell(*sums)
            for cell in self._sheet.gap_cells(moment, second, segments, index):
                cell.add(more)

    def _open_gap(self, track: StreamTrack, until_ns: int) -> None:
        record = track.record
        before_ns = record.event_ns[-1]
        end_ns = record.end_ns if record.end_ns is not None else until_ns + 1
        for index in self._long:
            limits = self._limits.get(index)
            if limits is None or track.stalled >> index & 1:
                continue
            counted_ns = before_ns + round(max(limits))
            if counted_ns > until_ns or counted_ns >= end_ns:
                continue
            track.stalled |= 1 << index
            second, segments = self._sheet.second(counted_ns), self._segments.at(counted_ns)
            moment = self._sheet.moment(second, segments)
            for cell in self._sheet.gap_cells(moment, second, segments, index):
                cell.add(Cell(1, 1, 1, 1, 1))

    def _correct_tokens(self, record: RequestRecord, end_ns: int, failed: bool) -> None:
        """Usage knows better than the number of events: add the difference where the stream ends."""
        missing = record.tokens - len(record.event_ns)
        if not record.tokens_by_usage or not missing:
            return
        second, segments = self._sheet.second(end_ns), self._segments.at(end_ns)
        for segment in (*segments, ALL):
            count = self._sheet.count(second, segment)
            if failed:
                count.failed_tokens += missing
            else:
                count.tokens += missing


def _ints(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int64)


def _count(moment: Moment, good: Bools, interval: Bools) -> None:
    events, tokens = len(good), int(np.count_nonzero(good))
    intervals = int(np.count_nonzero(interval))
    for count in moment.counts:
        count.events += events
        count.interval_events += intervals
        count.tokens += tokens
        count.failed_tokens += events - tokens
