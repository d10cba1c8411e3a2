"""Small drawings for a table's cell: one curve, its bands, no axes. Plain SVG, readable on paper and without scripts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from chaosflow.reports.downsample import Column, column_of, downsample

_WIDTH, _HEIGHT = 200, 28
_POINTS = 120


def sparkline(
    t: Sequence[float],
    values: Sequence[float | None],
    *,
    label: str,
    begin: float | None = None,
    end: float | None = None,
    bands: Sequence[tuple[float, float, str]] = (),
    points: int = _POINTS,
) -> Markup:
    """One curve, 200 x 28 px, from its own least to its own largest value; a hole (None, NaN) lifts the pen.

    ``begin`` and ``end``: the range of ``t`` that is shown, by default its own. ``bands``: (begin, end, colour).
    ``label`` is what a screen reader says. Empty where there is no value at all.
    """
    times = np.array(t, dtype=np.float32)
    column = column_of(values)
    if not len(times) or np.isnan(column).all():
        return Markup("")
    left = float(times[0]) if begin is None else begin
    right = float(times[-1]) if end is None else end
    width = right - left or 1.0
    times, fewer = downsample(times, {"v": column}, points)
    shapes = [
        f'<path fill="{escape(colour)}" fill-opacity="0.25" d="M{_WIDTH * (a - left) / width:.0f} 0'
        f'h{max(1.0, _WIDTH * (b - a) / width):.0f}v{_HEIGHT}h-{max(1.0, _WIDTH * (b - a) / width):.0f}z"/>'
        for a, b, colour in bands
    ]
    path = _path((times - left) / width * _WIDTH, fewer["v"])
    shapes.append(f'<path class="curve" d="{path}"/>')
    return Markup(
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    )


def _path(x: Column, values: Column) -> str:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    flat = high == low
    parts, pen_down = [], False
    for at, value in zip(x, values, strict=True):
        if np.isnan(value):
            pen_down = False
            continue
        y = _HEIGHT / 2 if flat else 2 + (_HEIGHT - 4) * (1 - (float(value) - low) / (high - low))
        parts.append(f"{'L' if pen_down else 'M'}{at:.0f} {y:.1f}{'' if pen_down else 'h0'}")
        pen_down = True
    return "".join(parts)
