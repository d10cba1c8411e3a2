"""The life of a run: heal, plan, start, baseline, faults, recovery, undo, judge, report."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import shutil
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

from chaosflow.core.clock import NS_PER_S, SystemClock, utc_after, utc_now
from chaosflow.core.errors import ChaosflowError, ExitCode, MeasurementError, UndoError, UsageError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loader import Loaded
from chaosflow.core.probe import Probe, Reading
from chaosflow.core.registry import Registry
from chaosflow.core.result import RunResult
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CellBatch
from chaosflow.core.units import printable
from chaosflow.orchestrator.claims import claims_of
from chaosflow.orchestrator.conductor import Conductor
from chaosflow.orchestrator.heal import heal_first
from chaosflow.orchestrator.injector import Injector
from chaosflow.orchestrator.loadprocess import DRAIN_S, START_IN_NS
from chaosflow.orchestrator.measure import Measurement
from chaosflow.orchestrator.options import Ended, Options
from chaosflow.orchestrator.plan import Row, capability_table, planning_host, require_faults
from chaosflow.orchestrator.probing import ProbeWatch
from chaosflow.orchestrator.progress import View
from chaosflow.orchestrator.recording import Summary, build_result, judgement_of, write_reports
from chaosflow.orchestrator.rundir import Redactor, RunDir, hand_over, new_run_id, owner_of_runs
from chaosflow.orchestrator.stage import Stage
from chaosflow.orchestrator.stopping import End, Stop, Stopped, Why
from chaosflow.orchestrator.timeline import Timeline
from chaosflow.reports.history.record import record_run
from chaosflow.reports.history.store import HISTORY_FILE


class Run:
    """One run of one scenario. ``execute`` undoes everything on every way out."""

    def __init__(
        self,
        loaded: Loaded,
        timeline: Timeline,
        atoms: Registry[FaultAtom],
        probes: Registry[Probe],
        options: Options,
        view: View,
    ) -> None:
        self.loaded, self.timeline, self.options, self.view = loaded, timeline, options, view
        self.scenario = loaded.scenario
        self._atoms, self._probes = atoms, probes
        self._clock = SystemClock()
        self.run_id = new_run_id(self.scenario.name)
        self._began_ns = self._clock.now_ns()
        self._stop = options.stop or Stop(self._clock)
        self._lost: list[str] = []
        self._probe_watch = ProbeWatch(self._clock, self._on_reading)
        self._injector: Injector | None = None
        self._conductor: Conductor | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.summary = Summary(self.run_id, utc_now(), list(options.command))

    async def execute(self) -> Ended:
        """Run it. Raises UsageError, with everything undone, when it cannot even begin."""
        if self.options.stop is None:
            self._stop.listen(asyncio.get_running_loop())
        await self._heal()
        rows = self._plan()
        self._make_folder(rows)
        stage = Stage(
            self.scenario, self.run_id, self._dir.path, self._dir.logs, self._say, self.loaded.secrets
        )
        self._measure = Measurement(self.scenario, self.timeline, self._dir.series_row)
        self.options.metrics.begin(self.scenario, self.timeline, self._dir.redactor.text)
        refused: UsageError | None = None
        try:
            await self._start(stage)
            await self._conduct(stage, rows)
        except Stopped:
            pass
        except UsageError as e:
            if self._conductor is None:
                refused = e
            else:  # there are measurements by now, and a report to tell them
                self._stop.ask(Why.ERROR, str(e))
        except MeasurementError as e:
            self._stop.ask(Why.LOST, str(e))
        except Exception as e:
            self._stop.ask(Why.ERROR, str(e) if isinstance(e, ChaosflowError) else f"{type(e).__name__}: {e}")
        finally:
            await self._undo(stage)
        if refused is not None:
            self._dir.close()
            if stage.not_undone:
                raise UndoError("run", str(refused), f"by hand: {'; '.join(stage.not_undone)}") from refused
            shutil.rmtree(self._dir.path, ignore_errors=True)  # the message says it all: nothing was touched
            raise refused
        return self._judge_and_record(rows, stage.not_undone)

    async def _heal(self) -> None:
        await heal_first(self._atoms, lambda text: self._tell(0.0, "heal", text))

    def _plan(self) -> list[Row]:
        """The capability table; raises CapabilityError before anything is touched."""
        rows = capability_table(self.scenario, self.loaded.atoms, self._probes)
        require_faults(rows)
        return rows

    def _make_folder(self, rows: list[Row]) -> None:
        redactor = Redactor(self.loaded.secrets)
        self._dir = RunDir.create(self.options.runs_dir, self.run_id, redactor, self.summary.notes.append)
        self._dir.json("scenario.json", self.loaded.redacted())
        self.summary.look_around(self.loaded.redacted(), rows)
        self._dir.fact("run", asdict(self.summary))

    def _say(self, what: str, text: str) -> None:
        text = printable(self._dir.redactor.text(text))
        at_s = self._measure.at_s(self._clock.now_ns())
        self.summary.event(at_s, what, text)
        self._dir.event(at_s, what, text)
        self._tell(at_s, what, text)

    def _tell(self, at_s: float, what: str, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that hung up must not stop the undo
            self.view.event(at_s, what, text)

    def _on_lost(self, text: str) -> None:
        self._lost.append(text)
        self._stop.ask(Why.LOST, text)

    async def _start(self, stage: Stage) -> None:
        """Watchdog, target, proxy, load; returns when the target is healthy and the load is ready."""
        self._say("start", f"run {self.run_id}")
        await self._stop.unless(
            stage.up(
                claims=claims_of(self.loaded.atoms, planning_host(self.scenario)),
                need_proxy=any(atom.needs_proxy for atom in self.loaded.atoms.values()),
                on_batch=self._on_batch,
                on_lost=self._on_lost,
                on_dead_watchdog=lambda: self._stop.ask(
                    Why.ERROR, "the watchdog died, and without it no fault is safe"
                ),
            )
        )
        self._say("target", f"{stage.target.handle().url} is healthy, model {stage.target.handle().model}")

    def _on_reading(self, reading: Reading) -> None:
        self._measure.reading(reading)
        self._dir.reading(self._measure.at_s(reading.at_ns), reading.series, reading.value)

    def _on_batch(self, batch: CellBatch) -> None:
        self._measure.merge(batch)
        self._dir.cells(batch)
        self.options.metrics.batch(batch)

    async def _conduct(self, stage: Stage, rows: list[Row]) -> None:
        """Warm-up, baseline, faults and recoveries on the timeline."""
        gc.collect()
        gc.freeze()  # a full collection over all that was imported would delay an injection
        begin_ns = self._clock.now_ns() + START_IN_NS
        capabilities = {row.name: row.capability for row in rows if row.what == "fault"}

        def announce(mark: Mark) -> None:
            self._measure.segments.add(mark)
            stage.load.mark(mark)
            self._dir.fact("mark", mark.to_wire())
            for record in self._conductor.records if self._conductor and mark.fault else ():
                if record.name == mark.fault:
                    self._dir.fact("fault", record.told())
            self.options.metrics.mark(mark)
            self._say(mark.kind.value, mark.fault) if mark.fault else None

        self._injector = Injector(stage.journal, self._atoms, self._clock, announce)
        self._conductor = Conductor(
            self.timeline,
            capabilities,
            self._injector,
            stage.host,
            announce,
            self._stop,
            self._clock,
            begin_ns,
        )
        self._measure.begin(begin_ns, self._conductor)
        self.summary.baseline_utc = utc_after(
            (self._conductor.baseline_begin_ns - self._clock.now_ns()) / NS_PER_S
        )
        self.summary.isolated = stage.isolated
        self._dir.fact(
            "begin",
            {"begin_ns": begin_ns, "baseline_utc": self.summary.baseline_utc, "isolated": stage.isolated},
        )
        for record in self._conductor.records:
            self._dir.fact("fault", record.told())
        stage.load.begin(begin_ns)
        self._probe_watch.start(
            [self._probes.get(r.name) for r in rows if r.what == "probe" and r.capability.ok], stage.host()
        )
        self._tasks = [
            asyncio.create_task(self._guarded(self._send_horizon(stage))),
            asyncio.create_task(self._guarded(self._show())),
            asyncio.create_task(self._guarded(_preload_reports())),
        ]
        await self._conductor.play(self._measure.bad_baseline)
        self._stop.ask(Why.FINISHED, "the timeline ended")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Work beside the run: if it breaks, the run ends as an error of ours instead of going on blindly."""
        try:
            await work
        except Exception as e:
            self._stop.ask(Why.ERROR, f"{type(e).__name__}: {e}")

    async def _send_horizon(self, stage: Stage) -> None:
        """Tell the load how far the marks are complete; resolve relative limits on the way."""
        while True:
            limits = self._measure.resolve_limits()
            if limits:
                stage.load.limits(limits)
                self._dir.fact("limits", {str(index): pair for index, pair in limits.items()})
            stage.load.horizon(self._measure.horizon_ns(self._clock.now_ns()))
            await asyncio.sleep(0.2)

    async def _show(self) -> None:
        """One frame a second; abort rules are looked at in the same breath."""
        assert self._conductor
        while True:
            now_ns = self._clock.now_ns()
            self._measure.settle(now_ns)
            if rule := self._measure.broken_abort_rule():
                self._stop.ask(Why.ABORTED, rule.text)
            frame = self._measure.frame(now_ns, self._conductor.records)
            self.options.metrics.frame(frame)
            with contextlib.suppress(OSError):
                self.view.frame(frame)
            await asyncio.sleep(1.0 - (self._clock.now_ns() - now_ns) / NS_PER_S % 1.0)

    async def _undo(self, stage: Stage) -> None:
        """Faults first, newest first; then the load's last samples; then everything that was started."""
        if self._injector is not None:
            await self._injector.revert_all()
        self._measure.end(self._clock.now_ns())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._injector is not None and not self._lost:
            finished = self._stop.end is not None and self._stop.end.why is Why.FINISHED
            stage.load.horizon(self._clock.now_ns() + int((DRAIN_S + 60) * NS_PER_S))
            await stage.load.finish(self._measure.ended_ns, DRAIN_S if finished else 0.0)
        await self._probe_watch.stop()
        await stage.down(self._undo_again)

    async def _undo_again(self) -> None:
        """What could not be undone while a helper of ours hung: it is gone now."""
        if self._injector is not None:
            await self._injector.revert_all()

    def _judge_and_record(self, rows: list[Row], not_undone: list[str]) -> Ended:
        """Verdict, result and reports; the folder is complete when this returns."""
        end = self._stop.end or End(Why.ERROR, "the run ended without a reason")
        records = self._conductor.records if self._conductor else []
        not_undone = [*not_undone, *(r.undo.manual for r in records if r.undo and r.undo_failed)]
        self.summary.notes += self._probe_watch.notes
        self.summary.wall_s = (self._clock.now_ns() - self._began_ns) / NS_PER_S
        self.summary.timeline_s = self.timeline.total_s
        judgement = judgement_of(end, self._measure, records, self._lost)
        result = build_result(
            self.summary, end, judgement, self._measure, records, self._probe_watch.readings, self._lost,
            self.loaded.redacted(), not_undone,
        )  # fmt: skip
        result = RunResult.model_validate(self._dir.redactor.data(result.model_dump()))
        result.artifacts = self._dir.artifacts()
        self.options.metrics.end(result.state, {o.text: o.state for o in result.objectives}, len(not_undone))
        self._dir.close()
        self._record_in_history(result)
        folder, reports, trouble = write_reports(result, self._dir.path)
        hand_over(folder)
        code = ExitCode(result.exit_code)
        if trouble and code is not ExitCode.NOT_UNDONE:
            code = ExitCode.ERROR
        return Ended(result, folder, code, reports, not_undone, trouble)

    def _record_in_history(self, result: RunResult) -> None:
        """Before the reports, so that they can tell when it failed."""
        path = self.options.history or self.options.runs_dir / HISTORY_FILE
        note = record_run(result, self._dir.path, path, self.options.session, owner_of_runs())
        if note:
            result.notes.append(note)


async def _preload_reports() -> None:
    """Import what the report needs while the warm-up passes, so that the end does not wait for it."""
    with contextlib.suppress(ImportError):
        await asyncio.to_thread(importlib.import_module, "chaosflow.reports.writer")
