"""A sweep as a person reads it at the end, in a terminal. Nothing here prints."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaosflow.core.slo import SHARE_KINDS
from chaosflow.core.sweepresult import (
    DECIDED,
    PointObjective,
    PointResult,
    SweepResult,
    main_axis,
    strain,
    told,
)
from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.terminal import STATE_STYLES, state_text


def sweep_table(result: SweepResult) -> Group:
    """The answer, then one row a point in the order of the values. Fits 80 columns."""
    style = STATE_STYLES.get(result.state, "magenta")
    mark = words.STATE_MARKS.get(result.state, "!")
    head = Text.assemble(
        (f" {mark} {result.state.upper()} ", f"bold reverse {style}"),
        (f"  {result.name}, sweep", "bold"),
        (f"  exit code {result.exit_code}, {format_duration(result.wall_s)}", "dim"),
    )
    parts: list[RenderableType] = [head]
    for line in result.breaking:
        text = Text(told(line, result.axes))
        parts.append(Padding(text, (0, 0, 0, 2)))
    if result.points:
        parts += [Text(), _points(result)]
    if result.stopped:
        parts += [Text(), Padding(Text(f"Stopped early: {result.stopped}", style="yellow"), (0, 0, 0, 2))]
    simulated = [Padding(Text(f"Simulated: {text}"), (0, 0, 0, 2)) for text in result.simulated]
    parts += [Text(), *simulated] if simulated else []
    return Group(*parts)


def _points(result: SweepResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for number, axis in enumerate(result.axes):
        table.add_column(("  " if number == 0 else "") + axis.short, overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("why: the objective nearest to its limit")
    for point in sorted(result.points, key=lambda p: _place(result, p)):
        values = [point.values[axis.path] for axis in result.axes]
        table.add_row(f"  {values[0]}", *values[1:], state_text(point.state), _tight(point))
    return table


def _place(result: SweepResult, point: PointResult) -> tuple[int, ...]:
    last = main_axis(result.axes)
    axes = [axis for axis in result.axes if axis.path != last.path] + [last]
    return tuple(axis.values.index(point.values[axis.path]) for axis in axes)


def _tight(point: PointResult) -> str:
    """What decided a point: its worst objective, what was seen and where; the reason of an undecided one."""
    seen = [o for o in point.objectives if o.observed is not None and o.limit]
    if not seen or point.state not in DECIDED:
        return point.reason
    worst = max(seen, key=lambda o: (words.severity(o.state), strain(o.metric, o.observed, o.limit)))
    return f"{worst.text}: {_measured(worst, worst.observed)} in {worst.segment}"


def _measured(objective: PointObjective, value: float | None) -> str:
    if value is None:
        return words.NONE
    return words.share(value) if objective.kind in SHARE_KINDS else format_duration(value)
