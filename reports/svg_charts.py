"""The same charts as plain SVG: for paper, and for readers without JavaScript.

The drawing is stretched to whatever width the page has; only what stretches well is in it. Numbers on
the axes are HTML beside it, placed by per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from chaosflow.reports.chartspec import ChartBook, Line, Panel
from chaosflow.reports.downsample import Column, downsample

_WIDTH, _HEIGHT = 1000, 150
_POINTS = 600


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on an axis; ``percent`` from the left, or from the bottom."""

    text: str
    percent: float


@dataclass(frozen=True, slots=True)
class SvgPlot:
    svg: Markup
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def svg_plot(panel: Panel, book: ChartBook) -> SvgPlot:
    """One panel; at most 600 points a line (minima and maxima kept)."""
    parts = _bands(book)
    parts += [
        f'<path class="limit" d="{"".join(_limit_path(limit.spans, limit.y, panel, book))}"/>'
        for limit in panel.limits
    ]
    parts += [_line(line, panel, book) for line in panel.lines]
    svg = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(panel.title)}, {escape(panel.unit)}">{"".join(parts)}</svg>'
    )
    x_ticks = tuple(
        Tick(f"{x:g}", _percent(x, book.begin_s, book.end_s)) for x in nice_ticks(book.begin_s, book.end_s, 6)
    )
    y_ticks = tuple(Tick(f"{y:,g}", 100 * y / panel.y_max) for y in nice_ticks(0, panel.y_max, 3))
    return SvgPlot(Markup(svg), x_ticks, y_ticks)


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _percent(x: float, low: float, high: float) -> float:
    return round(100 * (x - low) / (high - low), 3)


def _x(t_s: float, book: ChartBook) -> float:
    return _WIDTH * (t_s - book.begin_s) / (book.end_s - book.begin_s)


def _y(value: float, panel: Panel) -> float:
    return _HEIGHT * (1 - value / panel.y_max)


def _bands(book: ChartBook) -> list[str]:
    """One path a colour: a report may hold hundreds of faults, eight times over."""
    paths: dict[str, list[str]] = {}
    for band in book.bands:
        left, right = _x(band.begin_s, book), _x(band.end_s, book)
        box = f"M{left:.1f} 0h{max(right - left, 1.5):.1f}v{_HEIGHT}h-{max(right - left, 1.5):.1f}z"
        paths.setdefault(band.colour, []).append(box)
    return [f'<path fill="{colour}" fill-opacity="0.22" d="{"".join(d)}"/>' for colour, d in paths.items()]


def _limit_path(spans: tuple[tuple[float, float], ...], y: float, panel: Panel, book: ChartBook) -> list[str]:
    height = _y(y, panel)
    return [f"M{_x(a, book):.1f} {height:.1f}H{_x(b, book):.1f}" for a, b in spans]


def _line(line: Line, panel: Panel, book: ChartBook) -> str:
    columns = book.sources[line.source]
    t, fewer = downsample(columns["t"], {"v": columns[line.column]}, _POINTS)
    path = _path(t, fewer["v"], panel, book)
    return f'<path fill="none" stroke="{line.colour}" stroke-width="{line.width}" d="{path}"/>'


def _path(t: Column, values: Column, panel: Panel, book: ChartBook) -> str:
    """Moves and lines; a sample alone between two holes becomes a dot (round cap)."""
    parts: list[str] = []
    pen_down = False
    for at_s, value in zip(t, values, strict=True):
        if np.isnan(value):
            pen_down = False
            continue
        point = f"{_x(float(at_s), book):.1f} {_y(float(value), panel):.1f}"
        parts.append(f"L{point}" if pen_down else f"M{point}h0")
        pen_down = True
    return "".join(parts)
