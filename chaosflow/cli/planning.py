"""``chaosflow plan``: what a run will be able to decide, before it runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import orjson
import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaosflow.cli.shared import ScenarioArgument, SetOption, out
from chaosflow.core.errors import UsageError
from chaosflow.core.units import significant
from chaosflow.orchestrator.plan import forecast
from chaosflow.orchestrator.prepare import hiding, prepare
from chaosflow.sla.outlook import Assumptions, Outlook
from chaosflow.sla.power import BROKEN, HEALTHY
from chaosflow.sla.words import number, percent, seconds

_STYLES = {"yes": "green", "weak": "yellow", "no": "bold red", "unknown": "dim"}


def plan(
    scenario: ScenarioArgument,
    overrides: SetOption = None,
    design_effect: Annotated[
        float | None,
        typer.Option(help="So many samples count as one; default: 1, gaps the streams under way."),
    ] = None,
    healthy: Annotated[
        float, typer.Option(help="A healthy service exceeds in this part of what is allowed.")
    ] = HEALTHY,
    broken: Annotated[float, typer.Option(help="A broken one in so many times what is allowed.")] = BROKEN,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
) -> None:
    """Say what each objective needs to be decidable, and how likely a false alarm and a miss are. Touches nothing."""
    _check(design_effect, healthy, broken)
    prepared = prepare(scenario, overrides or [])
    assumed = Assumptions(healthy, broken, design_effect)
    with hiding(prepared.loaded):
        rows, alpha = forecast(prepared.loaded.scenario, prepared.timeline, assumed)
    if as_json:
        sys.stdout.write(
            orjson.dumps(_as_json(rows, alpha, assumed), option=orjson.OPT_INDENT_2).decode() + "\n"
        )
        return
    for text, group in groupby(rows, key=lambda row: row.objective):
        _show_objective(text, list(group), assumed)
    for line in _legend(rows, alpha, assumed):
        out.print(Text(line, style="dim"))


def _check(design_effect: float | None, healthy: float, broken: float) -> None:
    if design_effect is not None and not 1 <= design_effect < 1e6:
        raise UsageError(f"--design-effect {design_effect:g}", "is not a number of at least 1")
    if not 0 <= healthy < 1:
        raise UsageError(f"--healthy {healthy:g}", "is not between 0 and 1: 1 is just what is allowed")
    if not 1 < broken < 1e6:
        raise UsageError(f"--broken {broken:g}", "is not above 1: 1 is just what is allowed")


def _show_objective(text: str, rows: Sequence[Outlook], assumed: Assumptions) -> None:
    out.print(Text(text, style="bold"))
    table = _table(rows, assumed, " ")
    if out.measure(table, options=out.options.update(max_width=1000)).maximum > out.width:
        table = _table(rows, assumed, "\n")  # times below the samples, so that no name is broken
    out.print(table)
    if note := _note(rows):
        out.print(Padding(Text(note, style="yellow"), (0, 0, 0, 2)))
    out.print()


def _table(rows: Sequence[Outlook], assumed: Assumptions, before_time: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("  segment", overflow="fold")
    for column in ("planned", "to pass", f"to catch {assumed.broken:g}x", "pass", "alarm", "miss"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        cells = (cell.replace(" (", f"{before_time}(") for cell in _cells(row))
        table.add_row(f"  {row.segment}", *cells, Text(row.decidable, style=_STYLES[row.decidable]))
    return table


def _note(rows: Sequence[Outlook]) -> str:
    """What the segment that lacks most would need, or what holds for all of them."""
    lacking = [row for row in rows if row.note and (row.decidable in ("weak", "no") or row.at_least)]
    if not lacking:
        return next((row.note for row in rows if row.note), "")
    worst = max(
        lacking, key=lambda row: (row.decidable == "no", (row.needed or 0) / max(1, row.planned or 0))
    )
    more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
    return f"{worst.segment}{more}: {worst.note}"


def _cells(row: Outlook) -> tuple[str, ...]:
    planned = "?" if row.planned is None else ("≥ " if row.at_least else "") + number(row.planned)
    if row.chances is None and row.passes_from is None:
        return planned, _amount(row, row.can_pass_from), "", "", "", ""
    found = row.chances
    chances = (
        ("?",) * 3 if found is None else tuple(map(_chance, (found.passes, found.false_alarm, found.miss)))
    )
    return planned, _amount(row, row.passes_from), _amount(row, row.catches_from), *chances


def _amount(row: Outlook, samples: int | None) -> str:
    if samples is None:
        return ""
    length_s = row.needed_s(samples)
    return number(samples) if length_s is None else f"{number(samples)} ({_rounded(length_s)})"


def _rounded(length_s: float) -> str:
    return seconds(max(1, math.ceil(length_s - 1e-9)))


def _chance(value: float) -> str:
    if value < 0.001:
        return "<0.1 %"
    return ">99 %" if value > 0.99 else f"{100 * value:.2g} %"


def _legend(rows: Sequence[Outlook], alpha: float, assumed: Assumptions) -> list[str]:
    effects = sorted({row.design_effect for row in rows})
    gaps = f" to {significant(effects[-1])}" if effects and effects[-1] > effects[0] else ""
    return [
        f"to pass: samples from which a healthy service ({assumed.healthy:g}x the allowed exceedances) passes "
        f"with 95 %. to catch: from which one with {assumed.broken:g}x fails with 95 %. In brackets: the time "
        "that takes at the planned load.",
        "pass, alarm: chance that the healthy one passes, fails. miss: chance that the broken one does not fail. A "
        f"service that just keeps its objectives fails at most 5 runs in 100, {percent(alpha)} a test.",
        "yes: both to pass and to catch are planned. weak: it can pass, but a run may well end inconclusive. "
        "no: it cannot pass."
        + (
            " unknown: how many samples a closed loop brings depends on the target; compare a run's with what is needed. "
            "≥: what it brings at least while all limits that hold there are kept."
            if any(row.at_least or row.decidable == "unknown" for row in rows)
            else ""
        ),
        f"Design effect assumed, so many samples count as one: {significant(effects[0])}{gaps} (1 for requests; for gaps the "
        "streams under way). The verdict estimates it from the run; --design-effect sets it here."
        if effects
        else "",
    ]


def _as_json(rows: Sequence[Outlook], alpha: float, assumed: Assumptions) -> dict[str, Any]:
    made = [{**asdict(row), "needed": row.needed, "needed_s": row.needed_s(row.needed)} for row in rows]
    return {"alpha": alpha, "assumptions": asdict(assumed), "objectives": made}
