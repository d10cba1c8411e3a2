"""Commands about runs that are over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from chaosflow.cli.runs import history_of, run_folder
from chaosflow.cli.shared import HistoryOption, RunArgument, RunsDirOption, out, say, warn
from chaosflow.core.result import RunResult
from chaosflow.core.units import counted
from chaosflow.load import query
from chaosflow.orchestrator.rebuild import rebuild
from chaosflow.orchestrator.rundir import hand_over, owner_of_runs
from chaosflow.reports.history.record import record_killed
from chaosflow.reports.terminal import verdict_table
from chaosflow.reports.writer import RESULT_FILE, load_result, write_all


def report(run: RunArgument, runs_dir: RunsDirOption = Path("runs"), history: HistoryOption = None) -> None:
    """Show a run's verdict again and write its reports anew.

    From its result.json; of a run that was killed, from what it had written down until then: that one gets its row
    in the history now.
    """
    folder = run_folder(run, runs_dir, history)
    result = _result_of(folder)
    out.print(verdict_table(result))  # first: it can be told where nothing can be written
    if result.killed:
        _record(result, folder, history_of(folder, runs_dir, history))
    names = write_all(result, folder)
    hand_over(folder)
    say(f"report: {folder / names['report']}")
    raise typer.Exit(result.exit_code)


def _result_of(folder: Path) -> RunResult:
    """As it was judged, or as it can be judged from what a killed run left."""
    if not (folder / RESULT_FILE).exists() and (folder / "scenario.json").exists():
        return rebuild(folder)
    result = load_result(folder)
    return rebuild(folder) if result.killed else result  # by now its faults may have been undone


def _record(result: RunResult, folder: Path, history: Path | None) -> None:
    """Before the reports, so that they can tell when it failed."""
    note = record_killed(result, folder, history, owner_of_runs()) if history is not None else ""
    if note:
        result.notes.append(note)
        warn("note", note)


def records(
    run: RunArgument,
    where: Annotated[
        list[str] | None,
        typer.Option(help=f"Condition, e.g. 'ttft > 200ms'. Repeatable. Fields: {', '.join(query.FIELDS)}."),
    ] = None,
    sort: Annotated[str, typer.Option(help="Field to sort by; -FIELD for descending.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Rows to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="All fields, one JSON object a line.")] = False,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
) -> None:
    """Look into the raw records of a run: which requests were slow, which failed."""
    found = query.run_query(run_folder(run, runs_dir, history), where or [], sort=sort)
    rows = found[:limit]
    if as_json:
        sys.stdout.write("".join(orjson.dumps(row).decode() + "\n" for row in rows))
    else:
        say(query.table(rows))
        say(_how_many(len(rows), len(found)))


def _how_many(shown: int, found: int) -> str:
    if not found:
        return "no such request"
    return counted(found, "request") if shown == found else f"{shown} of {found} requests; --limit shows more"
