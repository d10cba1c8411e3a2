"""Content events -> tokens, gaps and stalls, as they arrive and not when their stream ends."""

from __future__ import annotations

from typing import Protocol

from chaosflow.core.sample import RequestRecord
from chaosflow.core.slots import Cell
from chaosflow.load.judge import Limits
from chaosflow.load.moments import ALL, CellSheet, SegmentIndex


class StreamTrack(Protocol):
    """What is remembered of a stream from one fold to the next."""

    record: RequestRecord
    seen: int
    stalled: int


class GapFolder:
    """A gap that exceeds the limit is counted where it first does so, any other where it ends.

    So an open stall is seen while it lasts, and the count does not depend on when it is looked at.
    """

    def __init__(
        self, sheet: CellSheet, segments: SegmentIndex, limits: dict[int, Limits], objectives: list[int]
    ) -> None:
        self._sheet, self._segments, self._limits = sheet, segments, limits
        self._objectives = objectives

    def fold(self, track: StreamTrack, until_ns: int) -> None:
        """Count the stream's events up to ``until_ns``, then a stall that is still open there."""
        record = track.record
        arrivals, lows = record.event_ns, record.event_low_ns
        failed = record.end_ns is not None and record.outcome.failed
        place, last = track.seen, len(arrivals)
        while place < last and arrivals[place] <= until_ns:
            at_ns, low_ns = arrivals[place], lows[place]
            second, segments = self._sheet.second(at_ns), self._segments.at(at_ns)
            moment = self._sheet.moment(second, segments)
            for count in moment.counts:
                count.events += 1
                count.interval_events += low_ns != at_ns
                if failed:
                    count.failed_tokens += 1
                else:
                    count.tokens += 1
            if place:
                if not failed:
                    for histogram in moment.gap_histograms:
                        histogram.add(at_ns - arrivals[place - 1])
                if self._objectives:
                    self._close_gap(track, place)
            place += 1
        track.seen = place
        if self._objectives and place == last and place:
            self._open_gap(track, until_ns)
        if place == last and record.end_ns is not None and record.end_ns <= until_ns:
            self._correct_tokens(record, record.end_ns, failed)

    def _close_gap(self, track: StreamTrack, place: int) -> None:
        arrivals, lows = track.record.event_ns, track.record.event_low_ns
        before_ns, at_ns = arrivals[place - 1], arrivals[place]
        shortest, longest = lows[place] - before_ns, at_ns - lows[place - 1]
        for index in self._objectives:
            if track.stalled >> index & 1:
                continue
            limits = self._limits.get(index)
            if limits is None:
                continue
            fail_ns, pass_ns = limits
            over_ns = fail_ns if fail_ns > pass_ns else pass_ns
            counted_ns = before_ns + round(over_ns) if shortest > over_ns else at_ns
            for cell in self._cells(counted_ns, index):
                cell.n += 1
                if longest > fail_ns or longest > pass_ns:
                    cell.fail_low += shortest > fail_ns
                    cell.fail_high += longest > fail_ns
                    cell.pass_low += shortest > pass_ns
                    cell.pass_high += longest > pass_ns
        track.stalled = 0

    def _open_gap(self, track: StreamTrack, until_ns: int) -> None:
        record = track.record
        before_ns = record.event_ns[-1]
        end_ns = record.end_ns if record.end_ns is not None else until_ns + 1
        for index in self._objectives:
            limits = self._limits.get(index)
            if limits is None or track.stalled >> index & 1:
                continue
            counted_ns = before_ns + round(max(limits))
            if counted_ns > until_ns or counted_ns >= end_ns:
                continue
            track.stalled |= 1 << index
            for cell in self._cells(counted_ns, index):
                cell.add(Cell(1, 1, 1, 1, 1))

    def _cells(self, at_ns: int, objective: int) -> list[Cell]:
        second, segments = self._sheet.second(at_ns), self._segments.at(at_ns)
        moment = self._sheet.moment(second, segments)
        return self._sheet.gap_cells(moment, second, segments, objective)

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
