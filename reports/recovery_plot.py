"""The recovery after each fault as small drawings: the curve, the baseline's band, revert and recovery."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from chaosflow.core.result import FaultResult, RecoveryCurve, RunResult
from chaosflow.reports import words
from chaosflow.reports.chartspec import BLUE, GREEN, PURPLE
from chaosflow.reports.downsample import Column, column_of
from chaosflow.reports.svg_charts import SvgPlot, Tick, nice_ticks

_WIDTH, _HEIGHT = 1000, 150


@dataclass(frozen=True, slots=True)
class RecoveryPlot:
    """What the page shows of one fault's recovery."""

    number: int
    name: str
    text: str
    """The recovery in words."""
    plots: tuple[tuple[str, SvgPlot], ...]
    """(title, drawing)."""


def recovery_plots(result: RunResult, most: int = 24) -> list[RecoveryPlot]:
    """One for each fault that has a curve, in the scenario's order; at most ``most``, those that took longest."""
    curves = [f for f in result.faults if f.recovery is not None and f.recovery.curve is not None]
    curves.sort(key=_slowest_first)
    chosen = {f.name for f in curves[:most]}
    return [_plot(i, f) for i, f in enumerate(result.faults, 1) if f.name in chosen]


def _slowest_first(fault: FaultResult) -> float:
    assert fault.recovery is not None
    return -(fault.recovery.seconds if fault.recovery.seconds is not None else np.inf)


def _plot(number: int, fault: FaultResult) -> RecoveryPlot:
    assert fault.recovery is not None
    assert fault.recovery.curve is not None
    curve, at_s = fault.recovery.curve, fault.recovery.seconds
    rows = (
        ("tokens/s", curve.tokens_per_s, curve.normal_tokens_per_s, GREEN, True),
        ("median TTFT, ms", curve.ttft_p50_ms, curve.normal_ttft_p50_ms, BLUE, False),
        ("median gap, ms", curve.gap_p50_ms, curve.normal_gap_p50_ms, PURPLE, False),
    )
    plots = tuple(
        (title, _draw(f"{fault.name}: {title}", curve, column_of(values), normal, colour, above, at_s))
        for title, values, normal, colour, above in rows
        if any(v is not None for v in values)
    )
    return RecoveryPlot(number, fault.name, words.recovery_words(fault.recovery), plots)


def _draw(
    label: str,
    curve: RecoveryCurve,
    values: Column,
    normal: float | None,
    colour: str,
    good_above: bool,
    recovered_s: float | None,
) -> SvgPlot:
    """Steps, since every value is that of a whole bucket. Green: where the baseline's buckets lay."""
    begin, end = curve.t_s[0], curve.t_s[-1] + curve.bucket_s
    top = 1.08 * max(float(np.nanmax(values)), normal or 0.0) or 1.0

    def x(t: float) -> float:
        return _WIDTH * (t - begin) / (end - begin)

    def y(value: float) -> float:
        return _HEIGHT * (1 - value / top)

    shapes = []
    if normal is not None:
        low, high = (y(normal), 0.0) if good_above else (_HEIGHT, y(normal))
        shapes.append(f'<path class="normal" d="M0 {high:.1f}H{_WIDTH}V{low:.1f}H0z"/>')
    shapes.append(f'<path class="revert" d="M{x(0):.1f} 0V{_HEIGHT}"/>')
    if recovered_s is not None:
        shapes.append(f'<path class="recovered" d="M{x(recovered_s):.1f} 0V{_HEIGHT}"/>')
    steps, pen_down = [], False
    for t, value in zip(curve.t_s, values, strict=True):
        if np.isnan(value):
            pen_down = False
            continue
        height = f"{y(float(value)):.1f}"
        steps.append(f"{f'V{height}' if pen_down else f'M{x(t):.1f} {height}'}H{x(t + curve.bucket_s):.1f}")
        pen_down = True
    shapes.append(f'<path fill="none" stroke="{colour}" stroke-width="2" d="{"".join(steps)}"/>')
    svg = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}, around the revert">{"".join(shapes)}</svg>'
    )
    x_ticks = tuple(Tick(f"{t:+g} s" if t else "revert", x(t) / 10) for t in nice_ticks(begin, end, 4))
    return SvgPlot(
        Markup(svg), x_ticks, tuple(Tick(f"{v:,g}", round(100 * v / top, 2)) for v in nice_ticks(0, top, 2))
    )
