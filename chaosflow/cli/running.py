"""Commands that carry scenarios out."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from chaosflow import dry
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
    SetOption,
    StrictOption,
    load,
    out,
    say,
    view_of,
    warn,
)
from chaosflow.orchestrator.options import Ended, Options
from chaosflow.orchestrator.prepare import hiding
from chaosflow.reports.terminal import verdict_table


def run(
    scenario: ScenarioArgument,
    overrides: SetOption = None,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
    strict: StrictOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, also on a terminal.")] = False,
    metrics_port: MetricsPortOption = None,
    metrics_address: MetricsAddressOption = LOOPBACK,
    metrics_linger: MetricsLingerOption = "0s",
) -> None:
    """Run a scenario: start, load, inject, watch, undo, judge, report."""
    prepared = load(scenario, overrides, strict)
    loaded = prepared.loaded
    if dry_run:
        with hiding(loaded):
            dry.show(out, loaded, prepared.timeline, prepared.probes)
        return
    command = [loaded.hide(word) for word in ["chaosflow", *sys.argv[1:]]]
    view = view_of(prepared, plain)
    with metering(metrics_port, metrics_address, metrics_linger) as metrics:
        with view:
            ended = asyncio.run(
                prepared.execute(Options(runs_dir, command, metrics.live, history=history), view)
            )
        leave_at_once()  # the run had handlers of its own
        show_end(ended)
        metrics.linger()
    raise typer.Exit(int(ended.exit_code))


def show_end(ended: Ended) -> None:
    """Verdict, notes, what is still in place, where the report lies."""
    out.print(verdict_table(ended.result))
    for note in ended.result.notes:
        warn("note", note)
    for command in ended.not_undone:
        warn("NOT UNDONE, run by hand", command, "bold red", copied=True)
    if ended.trouble:
        warn("error", f"no report was written: {ended.trouble}", "bold red")
    else:
        say(f"report: {ended.folder / ended.reports['report']}")
