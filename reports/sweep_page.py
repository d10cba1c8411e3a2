"""``sweep.html`` and ``sweep.json``: where a service breaks, along one axis or several. One file, offline."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from chaosflow.core.slo import SHARE_KINDS
from chaosflow.core.sweepresult import AxisResult, PointObjective, PointResult, SweepResult, lines, main_axis
from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.writer import write_atomically

JSON_FILE, HTML_FILE = "sweep.json", "sweep.html"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Okabe and Ito's, told apart by readers with any colour vision."""
_LOG_FROM = 16
"""A span of numbers so wide is drawn on a logarithmic axis."""
_FAR = 4.0
"""A limit further above than this is named, not drawn: it would flatten everything."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point in the table of states; None where it was not run."""

    value: str
    point: PointResult | None
    mark: str
    """``holds`` or ``breaks`` at the two sides of a breaking point."""


@dataclass(frozen=True, slots=True)
class Dot:
    left: float
    bottom: float
    state: str
    title: str
    whisker: tuple[float, float] | None
    """(bottom, height) in per cent of the interval."""


@dataclass(frozen=True, slots=True)
class Curve:
    label: str
    colour: str
    path: Markup
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What one objective showed along the main axis; positions in per cent."""

    title: str
    limit: str
    limit_at: float | None
    """None where it lies far above what is drawn."""
    curves: tuple[Curve, ...]
    x_ticks: tuple[tuple[str, float], ...]
    y_ticks: tuple[tuple[str, float], ...]


def write_sweep(result: SweepResult, folder: Path) -> None:
    """Write both files, each whole or not at all. Raises OSError."""
    write_atomically(folder / JSON_FILE, result.model_dump_json(indent=1) + "\n")
    write_atomically(folder / HTML_FILE, render_sweep(result))


def render_sweep(result: SweepResult) -> str:
    """The page; the runs' own reports are linked, by their folder beside it. Does not write a file."""
    from chaosflow.reports.page import render_page  # brings Bokeh, which takes most of a second

    axis = main_axis(result.axes)
    return render_page(
        "sweep.html.j2",
        r=result,
        axis=axis,
        others=[a for a in result.axes if a.path != axis.path],
        rows=[(line, _cells(result, axis, line)) for line in lines(result.axes)],
        charts=charts(result),
        facts=_facts(result),
        command=shlex.join(result.command),
        last_run=lambda point: next((run for run in reversed(point.runs) if run), ""),
    )


def _facts(result: SweepResult) -> list[tuple[str, str]]:
    runs = sum(len(point.runs) for point in result.points)
    again = runs - len(result.points)
    facts = [
        ("exit code", f"{result.exit_code}: {exit_words(result.exit_code)}"),
        ("points", f"{len(result.points)} of at most {result.planned_runs}" + (f", {again} repeated" if again else "")),
        ("search", "bisection" if result.mode == "bisect" else "grid"),
        ("duration", f"{format_duration(result.wall_s)}, {format_duration(result.estimated_s)} estimated"),
    ]  # fmt: skip
    return [*facts, ("stopped early", result.stopped)] if result.stopped else facts


def exit_words(code: int) -> str:
    """What an exit code of a sweep means."""
    known = {0: "an answer was found", 1: "nothing passed", 3: "no clear answer"}
    return known.get(code) or words.exit_words(code)


def _cells(result: SweepResult, axis: AxisResult, line: dict[str, str]) -> list[Cell]:
    wanted = [(value, {**line, axis.path: value}) for value in axis.values]
    breaking = next((b for b in result.breaking if b.fixed == line), None)
    marks = {breaking.holds_up_to: "holds", breaking.breaks_at: "breaks"} if breaking else {}
    return [
        Cell(value, next((p for p in result.points if p.values == values), None), marks.get(value, ""))
        for value, values in wanted
    ]


def charts(result: SweepResult) -> list[Chart]:
    """One chart for each objective that was observed at two points or more."""
    texts = list(dict.fromkeys(o.text for point in result.points for o in point.objectives))
    drawn = (_chart(result, text) for text in texts)
    return [chart for chart in drawn if chart is not None]


def _chart(result: SweepResult, text: str) -> Chart | None:
    axis = main_axis(result.axes)
    place, short = _places(axis), {a.path: a.short for a in result.axes}
    found: list[tuple[str, list[tuple[float, str, PointObjective]]]] = []
    for line in lines(result.axes):
        seen = [
            (place[point.values[axis.path]], point.values[axis.path], objective)
            for point in result.points
            if all(point.values[path] == value for path, value in line.items())
            for objective in point.objectives
            if objective.text == text and objective.observed is not None
        ]
        if seen:
            label = ", ".join(f"{short[path]} = {value}" for path, value in line.items())
            found.append((label, sorted(seen, key=lambda s: s[0])))
    shown = [o for _, seen in found for _, _, o in seen]
    if len(shown) < 2:
        return None
    top = max(abs(o.observed or 0.0) for o in shown)
    limits = [o.limit for o in shown if o.limit is not None]
    limit = max(limits) if limits else None
    drawn = limit is not None and (limit <= _FAR * top or not top)
    top = 1.12 * max(top, limit if drawn and limit else 0.0) or 1.0
    return Chart(
        title=text,
        limit=_measured(shown[0], limit),
        limit_at=100 * limit / top if drawn and limit is not None else None,
        curves=tuple(
            _curve(label, _COLOURS[i % len(_COLOURS)], seen, axis, top)
            for i, (label, seen) in enumerate(found)
        ),
        x_ticks=_thinned([(value, place[value]) for value in axis.values]),
        y_ticks=tuple((_measured(shown[0], y), 100 * y / top) for y in _ticks(top)),
    )


def _curve(
    label: str, colour: str, seen: Sequence[tuple[float, str, PointObjective]], axis: AxisResult, top: float
) -> Curve:
    dots = []
    for left, value, objective in seen:
        height = 100 * abs(objective.observed or 0.0) / top
        whisker = None
        if objective.low is not None and objective.high is not None:
            low, high = sorted((abs(objective.low), abs(objective.high)))
            whisker = (100 * low / top, max(0.0, min(100.0, 100 * high / top) - 100 * low / top))
        title = f"{axis.short} = {value}: {_measured(objective, objective.observed)} in {objective.segment}, {objective.state}"  # fmt: skip
        dots.append(Dot(left, height, objective.state, title, whisker))
    path = "L".join(f"{10 * d.left:.1f} {150 - 1.5 * d.bottom:.1f}" for d in dots)
    return Curve(label, colour, Markup("M{}").format(path), tuple(dots))


def _places(axis: AxisResult) -> dict[str, float]:
    """Value -> per cent from the left: by its number, by its logarithm where they span much, else evenly."""
    numbers = axis.numbers
    if numbers is None or len(numbers) < 2:
        numbers = [float(i) for i in range(len(axis.values))]
    elif min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM:
        numbers = [math.log(n) for n in numbers]
    first, last = numbers[0], numbers[-1]
    width = (last - first) or 1.0
    return {v: 4 + 92 * (n - first) / width for v, n in zip(axis.values, numbers, strict=True)}


def _thinned(ticks: Sequence[tuple[str, float]], apart: float = 7.0) -> tuple[tuple[str, float], ...]:
    """Without those that would run into the one before; the last one always stays."""
    kept: list[tuple[str, float]] = []
    for tick in ticks:
        if kept and tick[1] - kept[-1][1] < apart:
            if tick is not ticks[-1]:
                continue
            kept.pop()
        kept.append(tick)
    return tuple(kept)


def _ticks(top: float) -> Iterable[float]:
    from chaosflow.reports.svg_charts import nice_ticks

    return nice_ticks(0, top, 3)


def _measured(objective: PointObjective, value: float | None) -> str:
    if value is None:
        return words.NONE
    return words.share(value) if objective.kind in SHARE_KINDS else format_duration(value)
