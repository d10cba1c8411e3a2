"""The same charts as plain SVG: for paper, and for readers without JavaScript.

The drawing is stretched to whatever width the page has; only what stretches well is in it. Numbers on
the axes are HTML beside it, placed by per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from chaosflow.reports.areas import outline
from chaosflow.reports.chartspec import Area, ChartBook, Heat, Line, Panel
from chaosflow.reports.downsample import Column, downsample
from chaosflow.reports.heat import png

_WIDTH, _HEIGHT = 1000, 150
_DOTTED = "fill: none; stroke-width: 2; stroke-dasharray: 1 5; vector-effect: non-scaling-stroke"
"""In the element: a style sheet's rules do not reach what ``<use>`` repeats."""


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


def svg_plot(panel: Panel, book: ChartBook, points: int = 600) -> SvgPlot:
    """One panel; at most ``points`` of a line (minima and maxima kept)."""
    first = panel is book.panels[0]
    bands = "".join(_bands(book))
    parts = [f'<g id="bands">{bands}</g>' if first else '<use href="#bands"/>'] if bands else []
    if panel.heat is not None:
        parts.append(_heat(panel.heat, book))
    parts += [_area(area, panel, book) for area in panel.areas]
    parts += [
        f'<path class="limit" d="{"".join(_limit_path(limit.spans, limit.y, panel, book))}"/>'
        for limit in panel.limits
    ]
    parts += [_line(line, panel, book, points) for line in panel.lines]
    svg = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(in_words(panel, book))}">{"".join(parts)}</svg>'
    )
    x_ticks = tuple(
        Tick(f"{x:g}", _percent(x, book.begin_s, book.end_s)) for x in nice_ticks(book.begin_s, book.end_s, 6)
    )
    places = panel.y_ticks or tuple((y, f"{y:,g}") for y in nice_ticks(0, panel.y_max, 3))
    y_ticks = tuple(Tick(text, round(100 * y / panel.y_max, 2)) for y, text in places)
    return SvgPlot(Markup(svg), x_ticks, y_ticks)


def in_words(panel: Panel, book: ChartBook) -> str:
    """What a screen reader says of a chart: what it shows, and between which values each curve lies."""
    told = []
    for line in panel.lines:
        values = book.sources[line.source][line.column]
        if not np.isnan(values).all():
            told.append(f"{line.label} from {np.nanmin(values):.4g} to {np.nanmax(values):.4g}")
    return f"{panel.title}, {panel.unit}" + (f": {', '.join(told)}" if told else "")


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
    """One path a colour, and one of when it had recovered: a report may hold hundreds of faults, eight times over."""
    paths: dict[str, list[str]] = {}
    recovered: dict[str, list[str]] = {}
    for band in book.bands:
        left, right = _x(band.begin_s, book), _x(band.end_s, book)
        box = f"M{left:.1f} 0h{max(right - left, 1.5):.1f}v{_HEIGHT}h-{max(right - left, 1.5):.1f}z"
        paths.setdefault(band.colour, []).append(box)
        if band.recovered_s is not None:
            line = f"M{_x(band.recovered_s, book):.1f} 0V{_HEIGHT}"
            recovered.setdefault(band.colour, []).append(line)
    return [
        f'<path style="fill: {colour}" fill-opacity="0.22" d="{"".join(d)}"/>' for colour, d in paths.items()
    ] + [f'<path style="{_DOTTED}; stroke: {colour}" d="{"".join(d)}"/>' for colour, d in recovered.items()]


def _heat(heat: Heat, book: ChartBook) -> str:
    left, right = _x(heat.begin_s, book), _x(heat.end_s, book)
    beyond = max(
        0.0, 100 * (right - _WIDTH) / (right - left)
    )  # its last column may reach past the end of the run
    cut = f"; clip-path: inset(0 {beyond:.3f}% 0 0)" if beyond else ""
    return (
        f'<image href="{png(heat.levels)}" x="{left:.1f}" y="0" width="{right - left:.1f}" height="{_HEIGHT}" '
        f'preserveAspectRatio="none" style="image-rendering: pixelated{cut}"/>'
    )


def _area(area: Area, panel: Panel, book: ChartBook) -> str:
    xs, ys = outline(area)
    path = _path(xs, ys, panel, book).replace("h0", "")
    return f'<path style="fill: {area.colour}" fill-opacity="{area.alpha}" d="{path}"/>'


def _limit_path(spans: tuple[tuple[float, float], ...], y: float, panel: Panel, book: ChartBook) -> list[str]:
    height = _y(y, panel)
    return [f"M{_x(a, book):.1f} {height:.1f}H{_x(b, book):.1f}" for a, b in spans]


def _line(line: Line, panel: Panel, book: ChartBook, points: int) -> str:
    columns = book.sources[line.source]
    t, fewer = downsample(columns["t"], {"v": columns[line.column]}, points)
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
