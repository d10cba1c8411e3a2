"""``chaosflow sweep``: find the value at which a service breaks."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from chaosflow.cli.interrupt import leave_at_once
from chaosflow.cli.metering import (
    LOOPBACK,
    MetricsAddressOption,
    MetricsLingerOption,
    MetricsPortOption,
    metering,
)
from chaosflow.cli.shared import (
    HistoryOption,
    RunsDirOption,
    ScenarioArgument,
    StrictOption,
    out,
    say,
    view_of,
    warn,
)
from chaosflow.core.errors import ExitCode, UsageError
from chaosflow.core.slo import State
from chaosflow.core.sweepresult import PointResult
from chaosflow.core.units import counted, format_duration
from chaosflow.orchestrator.prepare import Prepared
from chaosflow.orchestrator.progress import View
from chaosflow.orchestrator.sweep import Sweep
from chaosflow.orchestrator.sweep_plan import SweepPlan, Values, plan_sweep
from chaosflow.reports.sweep_page import HTML_FILE
from chaosflow.reports.sweep_table import sweep_table
from chaosflow.reports.words import STATE_MARKS
from chaosflow.views import PlainView


def sweep(
    scenario: ScenarioArgument,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUES",
            help="Values to try, mildest first: 10,20,40 or 10..80:10 or 10..80*2. A single one is fixed. Repeatable.",
        ),
    ] = None,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Search one axis by halving instead of running every value.")
    ] = False,
    resolution: Annotated[
        str, typer.Option(metavar="STEP", help="With --bisect and LO..HI: how fine to search.")
    ] = "",
    retries: Annotated[
        int | None,
        typer.Option(
            min=0, max=10, help="Repeat undecided runs so often. [default: 1 with --bisect, else 0]"
        ),
    ] = None,
    max_runs: Annotated[int, typer.Option(min=1, help="Refuse a grid of more runs than that.")] = 100,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
    strict: StrictOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run; change nothing.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, also on a terminal.")] = False,
    metrics_port: MetricsPortOption = None,
    metrics_address: MetricsAddressOption = LOOPBACK,
    metrics_linger: MetricsLingerOption = "0s",
) -> None:
    """Run a scenario at many values and say up to which it holds: its breaking point."""
    plan = plan_sweep(
        scenario, settings or [], bisect=bisect, resolution=resolution, retries=retries, max_runs=max_runs
    )
    for warning in plan.warnings:
        warn("warning", warning)
    if strict and plan.warnings:
        raise UsageError("sweep", f"{counted(len(plan.warnings), 'warning')}, which --strict makes errors")
    say(_estimate(plan))
    if dry_run:
        for values in plan.points:
            say(f"  {_named(plan, values)}")
        return
    view = _Views(plan, plain)
    hide = next(iter(plan.points.values())).loaded.hide
    with metering(metrics_port, metrics_address, metrics_linger) as metrics:
        command = [hide(word) for word in ["chaosflow", *sys.argv[1:]]]
        carried_out = Sweep(plan, runs_dir, command, view, view.tell, metrics.live, history)
        result = carried_out.run()
        leave_at_once()  # the sweep had handlers of its own
        out.print(sweep_table(result))
        for by_hand in carried_out.not_undone:
            warn("NOT UNDONE, run by hand", by_hand, "bold red")
        if carried_out.trouble:
            warn("error", f"not all reports were written: {carried_out.trouble}", "bold red")
        else:
            say(f"report: {carried_out.folder / HTML_FILE}")
        metrics.linger()
    decided = result.exit_code in (ExitCode.PASS, *(state.exit_code for state in State))
    raise typer.Exit(int(ExitCode.ERROR) if carried_out.trouble and decided else result.exit_code)


def _estimate(plan: SweepPlan) -> str:
    runs = plan.most_points
    most = "at most " if plan.bisect else ""
    often = "once" if plan.retries == 1 else f"up to {counted(plan.retries, 'time')}"
    again = f"; an undecided one is repeated {often}" if plan.retries else ""
    return (
        f"sweep: {most}{counted(runs, 'run')}, {most}about {format_duration(round(plan.estimate_s))}{again}"
    )


def _named(plan: SweepPlan, values: Values) -> str:
    return ", ".join(f"{axis.short}={value}" for axis, value in zip(plan.axes, values, strict=True))


class _Views:
    """The view of each run, with its values and its number in the title."""

    def __init__(self, plan: SweepPlan, plain: bool) -> None:
        self._plan, self._plain, self._number = plan, plain, 0

    def __call__(self, prepared: Prepared, values: Values) -> AbstractContextManager[View]:
        self._number += 1
        loaded, most = prepared.loaded, "at most " if self._plan.bisect else ""
        title = loaded.hide(
            f"{_named(self._plan, values)} (run {self._number} of {most}{self._plan.most_points})"
        )
        view = view_of(prepared, self._plain, f"{loaded.scenario.name} · {title}")
        if isinstance(view, PlainView):
            say(f"sweep: {title}")
        return view

    def tell(self, point: PointResult) -> None:
        """One line that stays on the screen after each run."""
        mark = STATE_MARKS.get(point.state, "!")
        values = ", ".join(f"{axis.short}={point.values[axis.path]}" for axis in self._plan.axes)
        say(f"{mark} {point.state}  {values}  {format_duration(point.wall_s)}")
