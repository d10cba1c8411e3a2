"""What has been measured so far: cells merged as they come, and everything that is asked of them in mid-run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.probe import Reading
from chaosflow.core.scenario import Scenario
from chaosflow.core.segments import SegmentMap
from chaosflow.core.slo import AbortRule
from chaosflow.core.slots import CellBatch, CellStore
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.orchestrator.progress import (
    ActiveFault,
    Frame,
    ObjectiveNow,
    per_second,
    sliding,
)
from chaosflow.orchestrator.series import Row, SeriesBuilder
from chaosflow.orchestrator.timeline import Timeline
from chaosflow.probes.health import READY
from chaosflow.sla.evidence import Evidence, FaultFact
from chaosflow.sla.judge import baseline_blocks
from chaosflow.sla.limits import relative_limits
from chaosflow.sla.live import aborts, objective_states

RATE_WINDOW_S = 5


class Schedule(Protocol):
    """The moments of a run, monotonic ns: a Conductor's, or those of a Watch."""

    baseline_begin_ns: int
    zero_ns: int
    """The baseline's end."""
    end_ns: int


class Measurement:
    """One run's cells, segments and series. Everything is asked and told from the event loop."""

    def __init__(
        self, scenario: Scenario, timeline: Timeline, on_row: Callable[[Row], None] | None = None
    ) -> None:
        """``on_row`` is given every row of the series, once it can no longer change."""
        self._scenario = scenario
        self.timeline = timeline
        """What evidence speaks of; replaced at the end where nobody planned it (orchestrator.watch)."""
        self.objectives = scenario.sla.parsed()
        self._abort_rules = scenario.abort_rules()
        self.store = CellStore(
            keep_s=max(120, int(max((r.for_s for r in self._abort_rules), default=0)) + 10)
        )
        self.segments = SegmentMap()
        self.limits: dict[int, tuple[float, float]] = {}
        self._limits_done = not any(o.relative for o in self.objectives)
        self.health: dict[str, dict[str, float]] = {}
        self._in_flight: dict[str, int] = {}
        self._in_flight_at: dict[int, int] = {}
        self._readiness: list[tuple[float, bool]] = []
        self.begin_ns = 0
        self.ended_ns = 0
        self._conductor: Schedule | None = None
        self._series = SeriesBuilder(-timeline.warmup_s, on_row)

    def begin(self, load_begin_ns: int, conductor: Schedule) -> None:
        self.begin_ns, self._conductor = load_begin_ns, conductor

    def at_s(self, now_ns: int) -> float:
        """Seconds from the beginning of the baseline; before the load starts, minus the warm-up."""
        if not self.begin_ns:
            return -self.timeline.warmup_s
        return (now_ns - self.begin_ns) / NS_PER_S - self.timeline.warmup_s

    def end(self, now_ns: int) -> None:
        """The timeline ended, or was ended."""
        self.ended_ns = now_ns

    def merge(self, batch: CellBatch) -> None:
        self.store.merge(batch)
        self.health[batch.worker] = batch.health
        self._in_flight[batch.worker] = batch.in_flight
        self._in_flight_at[self._second(batch.watermark_ns)] = sum(self._in_flight.values())

    def reading(self, reading: Reading) -> None:
        """A probe's reading; those of the health check become evidence."""
        if reading.series == READY and self.begin_ns:
            self._readiness.append(((reading.at_ns - self.begin_ns) / NS_PER_S, reading.value > 0))

    def _second(self, at_ns: int) -> int:
        return (at_ns - self.begin_ns) // NS_PER_S

    def _last_closed_second(self) -> int:
        """The newest second that no batch can change any more; -1 = none yet."""
        if not self.store.watermarks:
            return -1
        return self._second(min(self.store.watermarks.values())) - 1

    def settle(self, now_ns: int) -> None:
        """Add to the series what can no longer change."""
        self._series.extend(self.store, self._last_closed_second(), self._in_flight_at)

    def finish_series(self) -> SeriesBuilder:
        """The whole series, the last seconds included."""
        whole = (self.ended_ns - self.begin_ns) // NS_PER_S if self.ended_ns and self.begin_ns else None
        self._series.extend(self.store, self.store.last_second(), self._in_flight_at, whole)
        return self._series

    def horizon_ns(self, now_ns: int) -> int:
        """Up to where the load may fold: not past the baseline while a relative limit is open."""
        assert self._conductor
        return now_ns if self._limits_done else min(now_ns, self._conductor.zero_ns)

    def resolve_limits(self) -> dict[int, tuple[float, float]]:
        """Fix the relative limits once the whole baseline has been folded; empty before and after."""
        assert self._conductor
        marks = self.store.watermarks
        if self._limits_done or not marks or min(marks.values()) < self._conductor.zero_ns:
            return {}
        self._limits_done = True
        failed = self.store.counts.total("baseline").failed
        for index, objective in enumerate(self.objectives):
            if not objective.relative:
                continue
            pair = relative_limits(
                objective, self.store.by_segment.get(("baseline", objective.metric)), failed
            )
            if pair is not None:  # else the baseline held too few samples, and the verdict says so
                self.limits[index] = pair
        return self.limits

    def bad_baseline(self) -> str | None:
        """Why the run must not go on to its first fault, or None."""
        if self._scenario.sla.on_bad_baseline == "continue":
            return None
        return baseline_blocks(self.evidence([]))

    def broken_abort_rule(self) -> AbortRule | None:
        second = self._last_closed_second()
        return aborts(self._abort_rules, self.store, second) if self._abort_rules and second >= 0 else None

    def evidence(
        self,
        records: Sequence[FaultRecord],
        *,
        aborted: str = "",
        broken: Sequence[str] = (),
        lost: Sequence[str] = (),
    ) -> Evidence:
        """All that a verdict is made of, so far."""
        arrival = self._scenario.load.arrival
        by_name = {r.name: r for r in records}
        facts = []
        for step in self.timeline.steps:
            record = by_name.get(step.name)
            facts.append(
                FaultFact(
                    name=step.name,
                    reversible=step.reversible,
                    attempted=record is not None
                    and (record.inject_begin_ns is not None or bool(record.error)),
                    confirmed=record is not None and record.confirmed,
                    error=record.error if record else "",
                    recovery_measured=step.recovery_measured,
                )
            )
        return Evidence(
            objectives=self.objectives,
            store=self.store,
            segments=self.segments,
            t0_ns=self.begin_ns,
            window_s=self._scenario.sla.window,
            faults=tuple(facts),
            has_baseline=self.timeline.baseline_s > 0,
            limits=self.limits,
            arrival_kind=arrival.kind,
            rate_per_s=arrival.steady_rate_per_s,
            ended_ns=self.ended_ns or None,
            aborted=aborted,
            broken=tuple(broken),
            lost_workers=tuple(lost),
            cap_hits=int(sum(h.get("cap_hits", 0) for h in self.health.values())),
            deadline_s=self._scenario.load.deadline,
            readiness=self._readiness,
            in_flight=self._in_flight_at,
            clock_jumps=int(sum(h.get("clock_jumps", 0) for h in self.health.values())),
        )

    def frame(self, now_ns: int, records: Sequence[FaultRecord]) -> Frame:
        """The state of the run at this moment."""
        assert self._conductor
        second = self._last_closed_second()
        rates = per_second(self.store, range(second - RATE_WINDOW_S + 1, second + 1))
        phase, phase_left_s = self._phase(now_ns, records)
        return Frame(
            phase=phase,
            at_s=self.at_s(now_ns),
            phase_left_s=phase_left_s,
            run_left_s=max(0.0, (self._conductor.end_ns - now_ns) / NS_PER_S),
            faults=tuple(_active(r, now_ns) for r in records if r.inject_begin_ns and not r.reverted),
            quantiles=sliding(self.store, second),
            tokens_per_s=rates.tokens / RATE_WINDOW_S,
            requests_per_s=rates.resolved / RATE_WINDOW_S,
            errors_per_s=rates.failed / RATE_WINDOW_S,
            in_flight=sum(self._in_flight.values()),
            objectives=self._objectives_now(records),
            history=tuple(per_second(self.store, [s]).tokens for s in range(max(0, second - 59), second + 1)),
        )

    def _objectives_now(self, records: Sequence[FaultRecord]) -> tuple[ObjectiveNow, ...]:
        states = objective_states(self.evidence(records))
        pairs = zip(self.objectives, states, strict=True)
        return tuple(ObjectiveNow(o.text, state, note) for o, (state, note) in pairs)

    def _phase(self, now_ns: int, records: Sequence[FaultRecord]) -> tuple[str, float | None]:
        assert self._conductor
        if now_ns < self._conductor.baseline_begin_ns:
            return "warm-up", (self._conductor.baseline_begin_ns - now_ns) / NS_PER_S
        if now_ns < self._conductor.zero_ns:
            return "baseline", (self._conductor.zero_ns - now_ns) / NS_PER_S
        active = [r for r in records if r.inject_begin_ns and not r.reverted]
        if active:
            return "fault " + ", ".join(r.name for r in active), _left_s(active[-1], now_ns)
        reverted = [r for r in records if r.reverted]
        if reverted and now_ns < self._conductor.end_ns:
            last = max(reverted, key=lambda r: r.revert_ack_ns or r.inject_ack_ns or 0)
            step = self.timeline.step(last.name)
            end_ns = self._conductor.zero_ns + int(step.recovery_end_s * NS_PER_S)
            return f"recovery from {last.name}", max(0.0, (end_ns - now_ns) / NS_PER_S)
        return "end" if now_ns >= self._conductor.end_ns else "between faults", None


def _left_s(record: FaultRecord, now_ns: int) -> float | None:
    if record.planned_revert_ns is None:
        return None
    return max(0.0, (record.planned_revert_ns - now_ns) / NS_PER_S)


def _active(record: FaultRecord, now_ns: int) -> ActiveFault:
    return ActiveFault(record.name, record.atom.kind, record.evidence, _left_s(record, now_ns))
