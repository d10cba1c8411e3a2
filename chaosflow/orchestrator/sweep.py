"""A sweep: one scenario run at many values, to find where it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import chaosflow
from chaosflow.core.axis import Axis
from chaosflow.core.clock import utc_now
from chaosflow.core.errors import ChaosflowError, ExitCode
from chaosflow.core.result import ObjectiveResult
from chaosflow.core.slo import State
from chaosflow.core.sweepresult import (
    DECIDED,
    AxisResult,
    PointObjective,
    PointResult,
    SweepResult,
    find_breaking,
    strain,
    told,
)
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.orchestrator.options import Ended, Options
from chaosflow.orchestrator.prepare import Prepared
from chaosflow.orchestrator.progress import View
from chaosflow.orchestrator.rundir import hand_over
from chaosflow.orchestrator.sweep_plan import SweepPlan, Values
from chaosflow.reports.history.store import HISTORY_FILE
from chaosflow.reports.sweep_page import write_sweep
from chaosflow.reports.words import shown_state

_LINES_SAID = 4
"""In the one sentence that is the reason; the page has them all."""


@dataclass(slots=True)
class Sweep:
    """Runs the points of a plan and keeps ``sweep.json`` and ``sweep.html`` up to date after each."""

    plan: SweepPlan
    runs_dir: Path
    command: Sequence[str]
    view: Callable[[Prepared, Values], AbstractContextManager[View]]
    tell: Callable[[PointResult], None]
    """Called after each run with what it showed."""
    metrics: LiveMetrics = field(default_factory=LiveMetrics)
    history: Path | None = None
    """The history file of its runs; None = that of ``runs_dir``, as for single runs."""
    not_undone: list[str] = field(init=False, default_factory=list)
    """Manual commands, one for each fault that could not be undone."""
    trouble: str = field(init=False, default="")
    """Why the sweep's own files, or a run's reports, could not be written."""
    folder: Path = field(init=False)
    result: SweepResult = field(init=False)
    _signal: int = field(init=False, default=0)
    _began: float = field(init=False, default_factory=time.monotonic)

    def __post_init__(self) -> None:
        loaded = next(iter(self.plan.points.values())).loaded
        started = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        sweep_id = f"{started}-sweep-{secrets.token_hex(2)}"
        self.folder = self.runs_dir / sweep_id
        self.result = SweepResult(
            sweep_id=sweep_id,
            name=loaded.hide(loaded.scenario.name),
            mode="bisect" if self.plan.bisect else "grid",
            axes=[_axis_result(axis, loaded.hide) for axis in self.plan.axes],
            planned_runs=self.plan.most_points,
            retries=self.plan.retries,
            started_utc=utc_now(),
            estimated_s=round(self.plan.estimate_s, 1),
            command=list(self.command),
            version=chaosflow.__version__,
        )

    def run(self) -> SweepResult:
        """Run until all is known, a signal comes, or a fault cannot be undone.

        Each run undoes its own faults. Raises UsageError when not even the first run can begin.
        """
        self._arm()
        for values in self._bisection() if self.plan.bisect else iter(self.plan.points):
            if self._stopped():
                break
            self.result.points.append(self._point(values))
            self._write()
        if not self.result.points:
            self._write()
        return self.result

    def _bisection(self) -> Iterator[Values]:
        """Both ends, then always the middle; what did not pass counts as broken."""
        line = list(self.plan.points)
        yield line[0]
        if not self._last_passed():
            return
        yield line[-1]
        if self._last_passed():
            return
        low, high = 0, len(line) - 1
        while high - low > 1:
            middle = (low + high) // 2
            yield line[middle]
            low, high = (middle, high) if self._last_passed() else (low, middle)

    def _last_passed(self) -> bool:
        return bool(self.result.points) and self.result.points[-1].state == "pass"

    def _point(self, values: Values) -> PointResult:
        """One point; repeated while it stays undecided and a repeat is left."""
        runs: list[str] = []
        while True:
            point = self._one_run(values, runs)
            runs = point.runs
            if point.state in DECIDED or len(runs) > self.plan.retries or self._stopped():
                return point

    def _one_run(self, values: Values, before: list[str]) -> PointResult:
        prepared = self.plan.points[values]
        began = time.monotonic()
        names = {path: prepared.loaded.hide(v) for path, v in self.plan.names(values).items()}
        history = self.history or self.runs_dir / HISTORY_FILE
        options = Options(self.folder, self.command, metrics=self.metrics, history=history)
        try:
            with self.view(prepared, values) as view:
                ended = asyncio.run(prepared.execute(options, view))
        except ChaosflowError as e:
            if e.exit_code is ExitCode.NOT_UNDONE:
                self.not_undone.append(e.remedy)
                self.result.stopped = "a fault could not be undone"
            if not self.result.points and not before:
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
                raise  # nothing can run here, and the message says why
            return PointResult(values=names, state="error", exit_code=int(e.exit_code), reason=str(e), runs=[*before, ""])  # fmt: skip
        finally:
            gc.unfreeze()  # each run freezes what it finds; what the last one left may go
            self._arm()
        self._note_end(ended)
        point = _point_result(ended, names, before, time.monotonic() - began)
        self.tell(point)
        return point

    def _note_end(self, ended: Ended) -> None:
        self.result.simulated = ended.result.simulated
        self.not_undone += ended.not_undone
        if ended.trouble:
            self.trouble = ended.trouble
        if ended.exit_code is ExitCode.INTERRUPTED:
            self._signal = signal.SIGINT
        elif ended.exit_code is ExitCode.TERMINATED:
            self._signal = signal.SIGTERM
        elif ended.exit_code is ExitCode.NOT_UNDONE:
            self.result.stopped = "a fault could not be undone"

    def _arm(self) -> None:
        """Between runs a signal ends the sweep, not the process: what there is gets written."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signal = number

    def _stopped(self) -> bool:
        if self._signal and not self.result.stopped:
            self.result.stopped = f"ended by {signal.Signals(self._signal).name}"
        return bool(self.result.stopped)

    def _write(self) -> None:
        self._stopped()
        self.result.ended_utc, self.result.wall_s = utc_now(), round(time.monotonic() - self._began, 3)
        conclude(self.result, self._signal)
        try:
            write_sweep(self.result, self.folder)
            hand_over(self.folder)
        except (
            OSError
        ) as e:  # a full disk may cost the page, not the runs to come or the code of a fault left behind
            self.trouble = f"{self.folder}: {e.strerror}"


def conclude(result: SweepResult, by_signal: int = 0) -> None:
    """Fill in breaking points, state, reason and exit code from the points so far."""
    result.breaking = find_breaking(result.axes, result.points)
    said = [told(line, result.axes) for line in result.breaking]
    more = f"; and {len(said) - _LINES_SAID} more lines" if len(said) > _LINES_SAID else ""
    result.reason = "; ".join(said[:_LINES_SAID]) + more
    state = max((_state_of(line.verdict, result) for line in result.breaking), default=State.INCONCLUSIVE)
    result.state = state.word
    code = int(state.exit_code)
    if any(point.exit_code == ExitCode.NOT_UNDONE for point in result.points):
        code = int(ExitCode.NOT_UNDONE)
    elif by_signal:
        interrupted = by_signal == signal.SIGINT
        code = int(ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED)
    result.exit_code = code


def _state_of(verdict: str, result: SweepResult) -> State:
    """Found and all-pass are answers; without one, the worst of what kept it from being found."""
    if verdict in ("found", "all_pass"):
        return State.PASS
    if verdict == "none_passes":
        return State.FAIL
    undecided = [State[p.state.upper()] for p in result.points if p.state not in DECIDED]
    return max(undecided, default=State.INCONCLUSIVE)


def _axis_result(axis: Axis, hide: Callable[[str], str]) -> AxisResult:
    return AxisResult(
        path=axis.path,
        short=axis.short,
        values=[hide(value) for value in axis.values],
        numbers=list(axis.numbers) if axis.numbers is not None else None,
        unit=axis.unit,
    )


def _point_result(ended: Ended, values: dict[str, str], before: Sequence[str], wall_s: float) -> PointResult:
    result = ended.result
    return PointResult(
        values=values,
        state=shown_state(result),
        exit_code=int(ended.exit_code),
        reason=result.reason,
        runs=[*before, ended.folder.name],
        wall_s=round(wall_s, 3),
        objectives=[_objective(o) for o in result.objectives],
    )


def _objective(objective: ObjectiveResult) -> PointObjective:
    seen = [v for v in objective.segments if v.observed is not None]
    worst = max(seen, key=lambda v: strain(objective.metric, v.observed, v.limit), default=None)
    return PointObjective(
        text=objective.text,
        metric=objective.metric,
        kind=objective.kind,
        state=objective.state,
        segment=worst.segment if worst else "",
        limit=worst.limit if worst else None,
        observed=worst.observed if worst else None,
        low=worst.low if worst else None,
        high=worst.high if worst else None,
    )
