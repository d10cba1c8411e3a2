"""Follows the runs of this process and keeps the sums that are scraped."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.histogram import Histogram, value_of_bucket_ns
from chaosflow.core.scenario import Scenario
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slo import Kind, Objective
from chaosflow.core.slots import CellBatch, Count
from chaosflow.orchestrator.metrics.snapshot import BOUNDS_S, Buckets, ObjectiveGauge, Snapshot
from chaosflow.orchestrator.progress import Frame
from chaosflow.orchestrator.timeline import Timeline

STAND_ASIDE_NS, AFTER_NS = NS_PER_S // 10, NS_PER_S // 50
"""No scrape is answered from so long before an injection or a revert is due until so long after."""
_ON = {MarkKind.INJECT_ACK: True, MarkKind.REVERT_ACK: False}
_NO_SHARE = (Kind.DRIFT, Kind.RECOVERY, Kind.HEALTH)


class LiveMetrics:
    """Told by the run, from its event loop; ``snapshot`` may be read from any thread.

    Nothing here waits: a scrape reads the last snapshot and never holds up the run. Counters go on
    over several runs (a sweep, a nightly suite), as Prometheus expects of one process.
    """

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._count = Count()
        self._tokens = 0
        self._buckets = {metric: _Sums(bounds) for metric, bounds in BOUNDS_S.items()}
        self._hide: Callable[[str], str] = str
        self._objectives: tuple[Objective, ...] = ()
        self._faults: dict[str, str] = {}
        self._instants: frozenset[str] = frozenset()
        self._timeline: Timeline | None = None
        self._due_ns: tuple[int, ...] = ()

    def begin(self, scenario: Scenario, timeline: Timeline, hide: Callable[[str], str]) -> None:
        """A run begins: its faults and objectives replace those of the run before.

        ``hide`` takes the secrets out of every text that becomes a label.
        """
        self._hide = hide
        self._objectives = tuple(scenario.sla.parsed())
        self._faults = {step.name: step.atom.kind for step in timeline.steps}
        self._instants = frozenset(step.name for step in timeline.steps if not step.reversible)
        self._timeline, self._due_ns = timeline, ()
        pairs = list(self._faults.items())
        last = self.snapshot
        self._publish(
            scenario=hide(scenario.name),
            phase="starting",
            run_state="running",
            at_s=-timeline.warmup_s,
            left_s=timeline.total_s,
            active=dict.fromkeys(pairs, False),
            injections={pair: last.injections.get(pair, 0) for pair in pairs},
            not_undone=0,
            window={},
            in_flight=0,
            objectives={
                hide(o.text): ObjectiveGauge(allowed_share=None if o.kind in _NO_SHARE else o.allowed_share)
                for o in self._objectives
            },
            workers={},
        )

    def mark(self, mark: Mark) -> None:
        """An irreversible fault is an instant: it is counted, and never shown as acting."""
        if mark.kind is MarkKind.BASELINE_BEGIN and self._timeline is not None:
            self._due_ns = _due_ns(self._timeline, mark.at_ns)
        acting = _ON.get(mark.kind)
        if acting is None:
            return
        pair, now = (mark.fault, self._faults.get(mark.fault, "")), self.snapshot
        self._publish(
            active={**now.active, pair: acting and mark.reversible},
            injections={**now.injections, pair: now.injections.get(pair, 0) + acting},
        )

    def batch(self, batch: CellBatch) -> None:
        """Add what one worker sent."""
        for (_, segment), count in batch.counts.items():
            if segment == "*":
                self._count.add(count)
        for (_, metric), histogram in batch.by_second.items():
            if metric in self._buckets:
                self._buckets[metric].add(histogram)
        objectives, totals = dict(self.snapshot.objectives), dict(self.snapshot.totals)
        for (_, segment, index), cell in batch.cells.items():
            objective = self._objectives[index]
            if not objective.holds_for(segment, frozenset(self._faults), self._instants):
                continue
            text = self._hide(objective.text)
            gauge, (n, k) = objectives[text], totals.get(text, (0, 0))
            objectives[text] = replace(
                gauge, samples=gauge.samples + cell.n, exceedances=gauge.exceedances + cell.fail_low
            )
            totals[text] = (n + cell.n, k + cell.fail_low)
        self._publish(
            count=self._counters(),
            histograms={metric: sums.buckets() for metric, sums in self._buckets.items()},
            objectives=objectives,
            totals=totals,
            workers={**self.snapshot.workers, batch.worker: {**batch.health, "in_flight": batch.in_flight}},
        )

    def frame(self, frame: Frame) -> None:
        """The moment as a person sees it."""
        objectives = dict(self.snapshot.objectives)
        for now in frame.objectives:
            word = "pending" if now.state is None else now.state.word
            text = self._hide(now.text)
            objectives[text] = replace(objectives.get(text, ObjectiveGauge()), state=word)
        self._publish(
            phase=_phase(frame.phase),
            at_s=frame.at_s,
            left_s=frame.run_left_s,
            window=frame.quantiles,
            in_flight=frame.in_flight,
            objectives=objectives,
        )

    def end(self, state: str, objective_states: dict[str, str], not_undone: int = 0) -> None:
        """The verdict of the run; it stands until the next run begins."""
        now = self.snapshot
        objectives = {
            text: replace(gauge, state=objective_states.get(text, gauge.state))
            for text, gauge in now.objectives.items()
        }
        self._publish(
            phase="ended",
            run_state=state,
            runs={**now.runs, state: now.runs.get(state, 0) + 1},
            left_s=0.0,
            in_flight=0,
            window={},
            objectives=objectives,
            not_undone=not_undone,
        )

    def busy_s(self, now_ns: int) -> float:
        """How long a scrape should wait: an injection or a revert is due at once, and threads share one lock.

        0 nearly always; never more than 120 ms for each that is due. May be called from any thread.
        """
        ends = [due + AFTER_NS for due in self._due_ns if due - STAND_ASIDE_NS <= now_ns < due + AFTER_NS]
        return (max(ends) - now_ns) / NS_PER_S if ends else 0.0

    def _counters(self) -> Count:
        """A copy whose fields never fall: a correction by ``usage`` may lower the tokens for a moment."""
        last = self.snapshot.count
        # a stream that fails takes its tokens from one column to the other: the sum is what only grows
        whole = replace(self._count, tokens=self._count.tokens + self._count.failed_tokens)
        grown = {f.name: max(getattr(whole, f.name), getattr(last, f.name)) for f in fields(Count)}
        return Count(**grown)

    def _publish(self, **changes: object) -> None:
        self.snapshot = replace(self.snapshot, **changes)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Sums:
    """A histogram that is added to."""

    bounds_s: tuple[float, ...]
    counts: list[int]
    sum_s: float = 0.0

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s, self.counts, self.sum_s = bounds_s, [0] * (len(bounds_s) + 1), 0.0

    def add(self, histogram: Histogram) -> None:
        for bucket, times in histogram.counts.items():
            value_s = value_of_bucket_ns(bucket) / 1e9
            self.counts[bisect.bisect_left(self.bounds_s, value_s)] += times
            self.sum_s += value_s * times

    def buckets(self) -> Buckets:
        return Buckets(tuple(self.counts), self.sum_s)


def _due_ns(timeline: Timeline, baseline_begin_ns: int) -> tuple[int, ...]:
    zero_ns = baseline_begin_ns + int(timeline.baseline_s * NS_PER_S)
    seconds = [s for step in timeline.steps for s in (step.inject_s, step.revert_s) if s is not None]
    return tuple(zero_ns + int(s * NS_PER_S) for s in seconds)


def _phase(text: str) -> str:
    """A frame's phase without the faults' names."""
    word = text.partition(" ")[0]
    return {"warm-up": "warmup", "end": "ended"}.get(word, word)
