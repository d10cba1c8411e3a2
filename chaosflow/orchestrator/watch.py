"""Load on a standing target while somebody else's code runs, and the verdict on it.

The segments come about as things happen: a baseline until the first fault, each fault, each recovery. A baseline
or a recovery shorter than a second is not judged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from chaosflow.core.clock import NS_PER_S, utc_after, utc_now
from chaosflow.core.result import RunResult
from chaosflow.core.scenario import LoadPlan, Phases, Scenario, Sla
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slots import CellBatch
from chaosflow.core.units import printable
from chaosflow.orchestrator.happened import NEVER_NS, Happened, Seen
from chaosflow.orchestrator.loadprocess import DRAIN_S, START_IN_NS
from chaosflow.orchestrator.measure import Measurement
from chaosflow.orchestrator.recording import Summary, build_result, judgement_of, write_reports
from chaosflow.orchestrator.rundir import Redactor, RunDir, hand_over, new_run_id, owner_of_runs
from chaosflow.orchestrator.standing import Standing
from chaosflow.orchestrator.stopping import End, Why
from chaosflow.reports.history.record import record_run
from chaosflow.reports.history.store import HISTORY_FILE

LOAD_READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be driven and judged."""

    name: str
    """Of the run; letters, digits, ``. _ -``."""
    objectives: Sequence[str]
    load: LoadPlan
    warmup_s: float = 1.0
    window_s: float = 60.0
    seed: int = 7
    command: Sequence[str] = ()


class Watch:
    """``begin``, whatever happens to the target, ``end``, ``write``. Belongs to the loop of its Standing."""

    def __init__(self, standing: Standing, wanted: Wanted) -> None:
        self._standing, self._wanted, self._clock = standing, wanted, standing.clock
        self.run_id = new_run_id(wanted.name)
        self._summary = Summary(self.run_id, utc_now(), list(wanted.command))
        self._began_ns = self._clock.now_ns()
        self._scenario = standing.scenario.model_copy(
            update={
                "name": wanted.name,
                "seed": wanted.seed,
                "load": wanted.load,
                "phases": Phases(warmup=wanted.warmup_s, baseline=1.0, recovery=0.0),
                "sla": Sla(objectives=list(wanted.objectives), window=wanted.window_s),
            }
        )
        self._happened = Happened(wanted.warmup_s)
        self._lost: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._measure = Measurement(self._scenario, self._happened.timeline())
        self._result: RunResult | None = None
        self._end = End(Why.FINISHED, "the watch ended")

    # -- begin
    async def begin(self) -> None:
        """Start the load; returns when the warm-up is over. Raises ChaosflowError, with the load gone."""
        standing = self._standing
        standing.require_sound()
        redactor = Redactor(standing.secrets)
        self._dir = RunDir.create(standing.runs_dir, self.run_id, redactor, self._summary.notes.append)
        self._summary.look_around(self._plain_scenario(), [])
        self._load = standing.stage.new_load(self._on_batch, self._lost.append)
        try:
            order = standing.stage.order(self._scenario, self.run_id, self._dir.records)
            await self._load.start(order, standing.spec.api_key, LOAD_READY_WITHIN_S)
            self._start_clock()
            await asyncio.sleep((self._happened.baseline_begin_ns - self._clock.now_ns()) / NS_PER_S)
        except BaseException:
            await self.abandon()
            raise

    def _start_clock(self) -> None:
        begin_ns = self._clock.now_ns() + START_IN_NS
        baseline_ns = begin_ns + int(self._wanted.warmup_s * NS_PER_S)
        self._happened.baseline_begin_ns = baseline_ns
        self._measure.begin(begin_ns, self._happened)
        self._summary.baseline_utc = utc_after((baseline_ns - self._clock.now_ns()) / NS_PER_S)
        self._announce(Mark(MarkKind.BASELINE_BEGIN, baseline_ns))
        for record in self._standing.active:  # it began before us: for this watch it begins now
            self._happened.within_fault = True
            for kind in (MarkKind.INJECT_BEGIN, MarkKind.INJECT_ACK):
                self.mark(Mark(kind, baseline_ns, record.name, record.atom.reversible))
        self._standing.listeners.append(self.mark)
        self._load.begin(begin_ns)
        self._tasks = [asyncio.create_task(self._send_horizon())]

    def _on_batch(self, batch: CellBatch) -> None:
        self._measure.merge(batch)
        self._dir.cells(batch)

    async def _send_horizon(self) -> None:
        try:
            while True:
                if limits := self._measure.resolve_limits():
                    self._load.limits(limits)
                now_ns = self._clock.now_ns()
                self._load.horizon(self._measure.horizon_ns(now_ns))
                self._measure.settle(now_ns)
                await asyncio.sleep(0.2)
        except Exception as e:
            self._lost.append(f"{type(e).__name__}: {e}")

    # -- what happens
    def mark(self, mark: Mark) -> None:
        """Something happened to a fault. A new fault ends the baseline and every recovery."""
        if mark.kind is MarkKind.INJECT_BEGIN:
            self._end_baseline(mark.at_ns)
            self._end_recoveries(mark.at_ns)
            record = next(r for r in self._standing.active if r.name == mark.fault)
            self._happened.seen[mark.fault] = Seen(record)
        elif mark.fault not in self._happened.seen:
            return
        elif mark.kind is MarkKind.REVERT_ACK or (mark.kind is MarkKind.INJECT_ACK and not mark.reversible):
            seen = self._happened.seen[mark.fault]
            seen.recovery_begin_ns = mark.at_ns
            seen.alone = all(r is seen.record for r in self._standing.active)
        self._announce(mark)

    def _announce(self, mark: Mark) -> None:
        self._measure.segments.add(mark)
        self._load.mark(mark)
        at_s = self._measure.at_s(mark.at_ns)
        if mark.fault:
            self._summary.event(at_s, mark.kind.value, mark.fault)
            self._dir.event(at_s, mark.kind.value, mark.fault)

    def _end_baseline(self, at_ns: int) -> None:
        if self._happened.zero_ns == NEVER_NS:
            self._happened.zero_ns = at_ns
            self._announce(Mark(MarkKind.BASELINE_END, at_ns))

    def _end_recoveries(self, at_ns: int) -> None:
        for name, seen in self._happened.seen.items():
            if seen.recovering:
                seen.recovery_end_ns = at_ns
                self._announce(Mark(MarkKind.RECOVERY_END, at_ns, name, seen.record.atom.reversible))

    @property
    def sound(self) -> bool:
        """False as soon as going on proves nothing any more."""
        return not self._lost and not self._standing.broken

    # -- end
    async def end(self, cut: str = "") -> RunResult:
        """Stop the load, judge. Faults may still act; ``write`` waits for nothing.

        ``cut``: why what was watched ended early. Then requests under way are not waited for, and nothing passes.
        """
        if cut:
            self._end = End(Why.CUT, cut)
        await self._stop_load(0.0 if cut else DRAIN_S)
        for record in self._happened.records:
            with contextlib.suppress(Exception):  # its record says what was found
                await self._standing.look_again(record)
        self._measure.timeline = self._happened.timeline()
        self._summary.wall_s = (self._clock.now_ns() - self._began_ns) / NS_PER_S
        self._summary.timeline_s = self._measure.timeline.total_s
        self._summary.look_around(self._plain_scenario(), self._happened.rows())
        self._result = self._build()
        return self._result

    async def _stop_load(self, drain_s: float) -> None:
        now_ns = self._clock.now_ns()
        self._unlisten()
        self._end_baseline(now_ns)
        self._end_recoveries(now_ns)
        self._happened.end_ns = now_ns
        self._measure.end(now_ns)
        if self._standing.broken:
            self._lost.append(self._standing.broken)
        await self._cancel_tasks()
        if not self._lost:
            if limits := self._measure.resolve_limits():
                self._load.limits(limits)
            self._load.horizon(now_ns + int((DRAIN_S + 60) * NS_PER_S))
            await self._load.finish(now_ns, drain_s)
        await self._load.stop()

    def _unlisten(self) -> None:
        if self.mark in self._standing.listeners:
            self._standing.listeners.remove(self.mark)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def abandon(self) -> None:
        """End the load without a verdict. Safe to call at any time."""
        self._unlisten()
        await self._cancel_tasks()
        await self._load.stop()
        self._dir.close()

    @property
    def settled(self) -> bool:
        """Whether every fault of this watch has been undone, so that its report can say so."""
        return all(record not in self._standing.active for record in self._happened.records)

    def write(self) -> RunResult:
        """Write result, report and JUnit; call it when ``settled``. Raises nothing: trouble becomes a note."""
        assert self._result is not None
        verdict = self._result
        result = self._build()
        # the verdict is the one that was given; only what became of the faults since then is new
        result = result.model_copy(update={"state": verdict.state, "reason": verdict.reason})
        result.artifacts = self._dir.artifacts()
        self._dir.close()
        self._record_in_history(result)
        _, _, trouble = write_reports(result, self._dir.path)
        if trouble:
            result.notes.append(trouble)
        hand_over(self._dir.path)
        self._result = result
        return result

    def _record_in_history(self, result: RunResult) -> None:
        """As every run; one that was cut short has measured something else than its like."""
        if self._end.why is Why.CUT:
            return
        path = self._standing.runs_dir / HISTORY_FILE
        if note := record_run(result, self._dir.path, path, owner=owner_of_runs()):
            result.notes.append(note)

    @property
    def folder(self) -> str:
        return str(self._dir.path)

    def _build(self) -> RunResult:
        records, end = self._happened.records, self._end
        not_undone = [r.undo.manual for r in records if r.undo and r.undo_failed]
        result = build_result(
            summary=self._summary,
            end=end,
            judgement=judgement_of(end, self._measure, records, self._lost),
            measure=self._measure,
            records=records,
            readings={},
            lost=self._lost,
            scenario=self._plain_scenario(),
            not_undone=not_undone,
        )
        if self._happened.within_fault:  # there was no baseline, not one without a request
            result.segments = [s for s in result.segments if s.kind != "baseline"]
        return RunResult.model_validate(self._dir.redactor.data(result.model_dump()))

    def _plain_scenario(self) -> dict[str, object]:
        """What was driven and done, as a scenario would say it; without the key."""
        target = self._scenario.target
        shown = target.model_copy(update={"api_key": "***"}) if target.api_key else target
        scenario: Scenario = self._scenario.model_copy(
            update={"target": shown, "faults": self._happened.steps()}
        )
        data: dict[str, object] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
        data["name"] = printable(self._wanted.name)
        return data
