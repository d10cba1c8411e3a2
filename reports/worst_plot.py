"""One request's life as a strip: waiting, every token, the longest gap, the end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from chaosflow.core.result import RunResult, WorstRequest
from chaosflow.reports.svg_charts import Tick, nice_ticks

_WIDTH, _HEIGHT = 1000, 22


@dataclass(frozen=True, slots=True)
class WorstTable:
    """The strips share one scale, so that they can be compared."""

    rows: tuple[tuple[WorstRequest, Markup], ...]
    ticks: tuple[Tick, ...]


def worst_table(result: RunResult) -> WorstTable:
    """One strip for each of the worst requests, from its scheduled time on."""
    longest = max((r.e2e_ms or 0.0 for r in result.worst), default=0.0) or 1.0
    ticks = tuple(Tick(_seconds(ms), round(100 * ms / longest, 2)) for ms in nice_ticks(0, longest, 5))
    return WorstTable(tuple((r, _strip(r, longest)) for r in result.worst), ticks)


def _seconds(ms: float) -> str:
    return f"{ms:g} ms" if 0 < ms < 1000 else f"{ms / 1000:g} s"


def _strip(request: WorstRequest, longest_ms: float) -> Markup:
    def x(ms: float) -> str:
        return f"{_WIDTH * ms / longest_ms:.1f}"

    middle = _HEIGHT / 2
    end_ms = request.e2e_ms or 0.0
    first_ms = request.events_ms[0] if request.events_ms else end_ms
    shapes = [
        f'<path class="life" d="M0 {middle}H{x(end_ms)}"/>',
        f'<path class="wait" d="M0 {middle}H{x(first_ms)}"/>',
    ]
    moments = [*request.events_ms, end_ms]
    gaps = [(b - a, a, b) for a, b in pairwise(moments)]
    if gaps and (longest := max(gaps))[0] > 0:
        shapes.append(f'<path class="gap" d="M{x(longest[1])} {middle}H{x(longest[2])}"/>')
    ticks = "".join(f"M{x(ms)} 5V17" for ms in request.events_ms)
    if ticks:
        shapes.append(f'<path class="token" d="{ticks}"/>')
    if request.outcome != "ok":
        shapes.append(f'<path class="broken" d="M{x(end_ms)} 0V{_HEIGHT}"/>')
    label = f"request {request.j}: {request.outcome}, {len(request.events_ms)} events in {end_ms:.0f} ms"
    return Markup(
        f'<svg class="strip" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    )
