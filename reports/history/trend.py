"""A series as SVG: nights from left to right, evenly; the numbers beside it are HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from markupsafe import Markup

from chaosflow.reports import words
from chaosflow.reports.history.metrics import METRICS, shown
from chaosflow.reports.history.report import Annotation, SeriesReport

_WIDTH, _HEIGHT = 1000, 100
SPARK_NIGHTS = 90


@dataclass(frozen=True, slots=True)
class Level:
    text: str
    percent: float


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of a change or annotation, at its night."""

    text: str
    style: str
    kind: str
    """``step``, or ``known`` for an annotation."""


@dataclass(frozen=True, slots=True)
class Trend:
    svg: Markup
    levels: tuple[Level, ...]
    flags: tuple[Flag, ...]
    first: str
    last: str


class _Scale:
    def __init__(self, series: SeriesReport, points: int) -> None:
        values = [v for p in series.points[-points:] for v in (p.value, *p.runs)]
        low, high = min(values), max(values)
        room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
        # a series that hardly moves should look like one that hardly moves
        room = max(room, (abs(high) * 0.2 - (high - low)) / 2)
        self.low, self.high = low - room, high + room
        self.count = min(points, len(series.points))
        self.skip = len(series.points) - self.count

    def x(self, index: float) -> float:
        return _WIDTH * (index - self.skip + 0.5) / self.count

    def y(self, value: float) -> float:
        return _HEIGHT * (1 - self.share(value))

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


def trend(series: SeriesReport, annotations: Sequence[Annotation]) -> Trend:
    """The large chart: line, single runs, levels, changes, annotations."""
    scale = _Scale(series, len(series.points))
    flags, marks = [], []
    for change in series.changes:
        x = scale.x(change.index - 0.5)
        marks.append(f'<path class="step" d="M{x:.1f} 0V{_HEIGHT}"/>')
        flags.append(_flag(change.utc[:10], x, "step"))
    for note in annotations:
        index = next((i for i, p in enumerate(series.points) if p.utc[:10] >= note.date.isoformat()), None)
        if index is not None and not any(c.acknowledged == note.text for c in series.changes):
            x = scale.x(index - 0.5)
            marks.append(f'<path class="note" d="M{x:.1f} 0V{_HEIGHT}"/>')
            flags.append(_flag(note.text, x, "known"))
    parts = [_runs(series, scale), _levels(series, scale), *marks, _line(series, scale)]
    ticks = [p.value for p in series.points]
    levels = tuple(
        Level(_axis_text(series.metric, v), round(100 * scale.share(v), 2)) for v in (min(ticks), max(ticks))
    )
    if levels[1].percent - levels[0].percent < 14:
        levels = levels[1:]
    first, last = series.points[0].utc[:10], series.points[-1].utc[:10]
    label = f"{series.segment} {series.metric} over {len(series.points)} nights"
    return Trend(_svg(parts, label), levels, tuple(flags), first, last)


def _axis_text(metric: str, value: float) -> str:
    """With its unit where that is short; the heading names the others, and a phone has no room for them."""
    return words.number(value) if len(METRICS[metric].unit) > len("share") else shown(metric, value)


def spark(series: SeriesReport) -> Markup:
    """The small one: line and changes of the last nights."""
    if not series.points:
        return Markup("")
    scale = _Scale(series, SPARK_NIGHTS)
    marks = [
        f'<path class="step" d="M{scale.x(c.index - 0.5):.1f} 0V{_HEIGHT}"/>'
        for c in series.changes
        if c.index >= scale.skip
    ]
    last = len(series.points) - 1
    end = f'<path class="dots" d="M{scale.x(last):.1f} {scale.y(series.points[last].value):.1f}h0"/>'
    return _svg([*marks, _line(series, scale), end], f"the last {scale.count} nights")


def _svg(parts: Sequence[str], label: str) -> Markup:
    head = f'<svg class="line" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
    return Markup(head) + Markup(' aria-label="{}">').format(label) + Markup("".join(parts) + "</svg>")


def _line(series: SeriesReport, scale: _Scale) -> str:
    spots = [
        f"{scale.x(i):.1f} {scale.y(p.value):.1f}" for i, p in enumerate(series.points) if i >= scale.skip
    ]
    return f'<path class="value" d="M{"L".join(spots)}{"h0" if len(spots) == 1 else ""}"/>'


def _runs(series: SeriesReport, scale: _Scale) -> str:
    spots = [
        f"M{scale.x(i):.1f} {scale.y(value):.1f}h0"
        for i, p in enumerate(series.points)
        if len(p.runs) > 1
        for value in p.runs
    ]
    return f'<path class="runs" d="{"".join(spots)}"/>' if spots else ""


def _levels(series: SeriesReport, scale: _Scale) -> str:
    cuts = sorted({0, len(series.points), *(c.index for c in series.changes if c.kind != "drift")})
    parts = []
    for begin, end in pairwise(cuts):
        y = scale.y(median(p.value for p in series.points[begin:end]))
        parts.append(f"M{scale.x(begin - 0.5):.1f} {y:.1f}H{scale.x(end - 0.5):.1f}")
    return f'<path class="level" d="{"".join(parts)}"/>'


def _flag(text: str, x: float, kind: str) -> Flag:
    """Right of its line, or left of it where the right edge is near."""
    percent = round(100 * x / _WIDTH, 2)
    if percent > 60:
        return Flag(text, f"right: {100 - percent}%; margin-right: 3px", kind)
    return Flag(text, f"left: {percent}%; margin-left: 3px", kind)
