"""Samples -> cells, up to the horizon: the moment up to which marks and limits are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.segments import Mark
from chaosflow.core.slo import Kind, Objective
from chaosflow.core.slots import CellBatch
from chaosflow.load.gaps import GapFolder
from chaosflow.load.judge import Count, Limits, bad_at, good_at, judge, worst_of
from chaosflow.load.many import add_all, by_moment
from chaosflow.load.moments import ALL, CellSheet, SegmentIndex
from chaosflow.load.worst import Worst

NEVER = 1 << 62
_NOT_FIRED = -(1 << 62)
_MOST_PENDING = 2048
"""Events counted in one go: about a ms."""


@dataclass(slots=True)
class Track:
    """A request between its start and the fold of its end."""

    record: RequestRecord
    seen: int = 0
    """Events folded so far."""
    counted: int = 0
    """Bit i: objective i has counted this request; never twice."""
    stalled: int = 0
    """Bit i: gap objective i has counted the gap that is open now."""


class Folder:
    """One worker's samples. Knows nothing of sockets or greenlets; times are monotonic ns.

    ``fold`` is a generator so that its caller can let the event loop breathe between requests.
    """

    def __init__(
        self, worker: str, objectives: Sequence[Objective], fault_names: Sequence[str], t0_ns: int
    ) -> None:
        self._objectives = list(enumerate(objectives))
        self._latency = [(i, o) for i, o in self._objectives if o.kind is Kind.REQUEST_QUANTILE]
        self._shares = [(i, o) for i, o in self._objectives if o.kind is Kind.SHARE]
        self._limits: dict[int, Limits] = {
            i: (o.limit * 1e9, o.limit * 1e9)
            for i, o in self._objectives
            if o.kind in (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE) and not o.relative
        } | {
            i: (o.threshold_s * 1e9, o.threshold_s * 1e9)
            for i, o in self._objectives
            if o.kind is Kind.EVENT_SHARE
        }
        self._fault_names = frozenset(fault_names)
        self._segments = SegmentIndex()
        relative = frozenset(i for i, o in self._objectives if o.relative)
        self._sheet = CellSheet(worker, t0_ns, relative)
        self._gaps = GapFolder(self._sheet, self._segments, self._limits, self._objectives)
        self._arrivals: list[tuple[int, int]] = []
        self._tracks: dict[int, Track] = {}
        self._worst = Worst(t0_ns)

    # -- what the orchestrator announces
    def add_mark(self, mark: Mark) -> None:
        if mark.fault:
            self._fault_names |= {mark.fault}  # a fault that nobody planned (orchestrator.watch)
        self._segments.add(mark)

    def set_limits(self, limits_s: dict[int, tuple[float, float]]) -> None:
        """Fix the (fail, pass) limits of relative objectives."""
        for index, (fail_s, pass_s) in limits_s.items():
            self._limits[index] = (fail_s * 1e9, pass_s * 1e9)

    # -- what the dispatcher does
    def lost(self, sched_ns: int) -> None:
        """An arrival that could not be carried out: scheduled, not fired."""
        self._arrivals.append((sched_ns, _NOT_FIRED))

    def fired(self, record: RequestRecord) -> None:
        """A request was begun; its record is followed until its end has been folded."""
        self._arrivals.append((record.sched_ns, record.lag_ns))
        self._tracks[record.index] = Track(record)

    @property
    def unfolded(self) -> int:
        return len(self._tracks)

    # -- folding
    def fold(self, until_ns: int) -> Iterator[None]:
        """Count all that happened up to ``until_ns``; yields after each request."""
        self._fold_arrivals(until_ns)
        for index, track in list(self._tracks.items()):
            self._gaps.fold(track, until_ns)
            self._judge_latency(track, until_ns)
            record = track.record
            if record.end_ns is not None and record.end_ns <= until_ns:
                self._fold_end(track, record.end_ns)
                del self._tracks[index]
            if self._gaps.pending >= _MOST_PENDING:
                self._gaps.flush()
            yield
        self._gaps.flush()

    def fold_all(self, until_ns: int = NEVER) -> None:
        for _ in self.fold(until_ns):
            pass

    def take(
        self, watermark_ns: int, in_flight: int, health: dict[str, float], *, final: bool = False
    ) -> CellBatch:
        """What has been folded since the last call, as the next numbered batch."""
        batch = self._sheet.take(watermark_ns, in_flight, health, final=final)
        batch.worst = self._worst.take()
        return batch

    def _fold_arrivals(self, until_ns: int) -> None:
        due = [a for a in self._arrivals if a[0] <= until_ns]
        if not due:
            return
        self._arrivals = (
            [a for a in self._arrivals if a[0] > until_ns] if len(due) < len(self._arrivals) else []
        )
        table = np.array(due, dtype=np.int64)
        sched, lag = table[:, 0], table[:, 1]
        for moment, second, segments, chosen in by_moment(self._sheet, self._segments, sched):
            lags = lag[chosen]
            fired = lags[lags != _NOT_FIRED]
            for count in moment.counts:
                count.scheduled += len(chosen)
                count.fired += len(fired)
            histograms = [self._sheet.by_segment(s, "client_lag") for s in segments]
            add_all([self._sheet.by_second(second, "client_lag"), *histograms], np.maximum(fired, 0))

    def _judge_latency(self, track: Track, until_ns: int) -> None:
        counts: list[Count] = []
        for index, objective in self._latency:
            limits = self._limits.get(index)
            if limits is None or (track.counted >> index & 1 and not self._shares):
                continue
            count = judge(objective.metric, track.record, limits, until_ns)
            if count is None:
                continue
            segments = self._life(track, count.at_ns)
            if any(objective.holds_for(s, self._fault_names) for s in segments):
                counts.append(count)
            self._count_once(track, index, count, segments)
        broken = worst_of(counts)
        if broken is not None and broken.fail_low and broken.pass_low:
            self._count_goodput(track, broken)
        elif track.record.end_ns is not None and track.record.end_ns <= until_ns:
            self._count_goodput_at_end(track, broken)

    def _count_goodput_at_end(self, track: Track, latency: Count | None) -> None:
        record = track.record
        if record.outcome is Outcome.CANCELLED or record.end_ns is None:
            return
        end_ns, failed = record.end_ns, record.outcome.failed
        met = good_at(end_ns) if latency is None else latency._replace(at_ns=end_ns)
        self._count_goodput(track, bad_at(end_ns) if failed else met)

    def _count_goodput(self, track: Track, count: Count) -> None:
        for index, objective in self._shares:
            if objective.metric == "goodput":
                self._count_once(track, index, count, self._life(track, count.at_ns))

    def _count_once(self, track: Track, index: int, count: Count, segments: tuple[str, ...]) -> None:
        if track.counted >> index & 1:
            return
        track.counted |= 1 << index
        second = self._sheet.second(count.at_ns)
        for cell in self._sheet.cells(second, segments, index):
            count.add_to(cell)

    def _fold_end(self, track: Track, end_ns: int) -> None:
        record, sheet = track.record, self._sheet
        second, segments = sheet.second(end_ns), self._life(track, end_ns)
        for segment in segments:
            sheet.outcome(segment, record.outcome.value)
        if record.outcome is Outcome.CANCELLED:
            return
        failed, complete = record.outcome.failed, record.complete
        self._worst.offer(record, segments)
        for segment in (*segments, ALL):
            count = sheet.count(second, segment)
            count.resolved += 1
            count.failed += failed
            count.complete += complete
        for index, objective in self._shares:
            if objective.metric in ("error_rate", "completeness"):
                bad = failed if objective.metric == "error_rate" else not complete
                self._count_once(track, index, (bad_at if bad else good_at)(end_ns), segments)
        if not failed and record.ttft_ns is not None and record.e2e_ns is not None:
            self._histogram("ttft", second, segments, record.ttft_ns)
            self._histogram("e2e", second, segments, record.e2e_ns)
            if (tpot_ns := record.tpot_ns) is not None:
                for segment in segments:
                    self._sheet.by_segment(segment, "tpot").add(tpot_ns)

    def _life(self, track: Track, resolved_ns: int) -> tuple[str, ...]:
        return self._segments.map.of_life(track.record.sched_ns, resolved_ns)

    def _histogram(self, metric: str, second: int, segments: tuple[str, ...], value_ns: int) -> None:
        self._sheet.by_second(second, metric).add(value_ns)
        for segment in segments:
            self._sheet.by_segment(segment, metric).add(value_ns)
