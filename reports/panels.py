"""Which charts a run has, and what is drawn in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chaosflow.core.result import ProbeSeries, RunResult
from chaosflow.core.units import format_duration
from chaosflow.reports.areas import confidence_area, stacked_areas
from chaosflow.reports.chartspec import (
    BLUE,
    GREEN,
    MAIN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    Line,
    Panel,
)
from chaosflow.reports.heat import heat_panel

PARTS = ("embedding", "attention", "projection", "io", "scheduling")
"""Of one engine step, in the order in which they happen to a token."""
_TITLES = {"ttft": "Time to first token", "gap": "Gap between tokens", "e2e": "End to end"}
_QUANTILES = (("p50", SKY, 1.6), ("p95", BLUE, 1.9), ("p99", VERMILLION, 1.6))


def panels(result: RunResult) -> list[Panel]:
    """All charts in their order; a panel of lines without samples is left out by the caller."""
    names = [name for name, probe in result.probes.items() if probe.t_s]
    found: list[Panel] = []
    heat = {h.metric: h for h in result.heat}
    for metric, title in _TITLES.items():
        found.append(_quantile_panel(result, metric, title))
        if metric in heat:
            found.append(heat_panel(heat[metric], f"{title}, all samples"))
    found += [
        Panel(
            "throughput", "Output tokens", "tokens/s", (Line("tokens/s", MAIN, "tokens_per_s", GREEN, 1.8),)
        ),
        Panel(
            "requests",
            "Requests and errors",
            "1/s",
            (
                Line("requests ended", MAIN, "requests_per_s", SKY),
                Line("errors", MAIN, "errors_per_s", VERMILLION, 2.2),
            ),
        ),
    ]
    if any(result.series.error_percent):
        line = Line("failed", MAIN, "error_percent", VERMILLION, 1.9)
        found.append(
            Panel(
                "error_rate",
                "Failed requests",
                f"% of those that ended in the last {format_duration(result.series.window_s)}",
                (line,),
            )
        )
    in_flight = Line("in flight (client)", MAIN, "in_flight", BLUE, 1.8)
    found.append(Panel("concurrency", "Under way at once", "requests", (in_flight, *_queue_lines(names))))
    if (parts := _parts_panel(result.probes)) is not None:
        found.append(parts)
    lag = Line("P99", MAIN, "client_lag_p99_ms", PURPLE)
    return [
        *found,
        *_probe_panels(names),
        Panel("client_lag", "The load generator's own lateness", "ms", (lag,)),
    ]


def _quantile_panel(result: RunResult, metric: str, title: str) -> Panel:
    lines = tuple(Line(p.upper(), MAIN, f"{metric}_{p}_ms", c, width) for p, c, width in _QUANTILES)
    areas = (confidence_area(result.series, f"{metric}_{p}", p.upper(), c) for p, c, _ in _QUANTILES)
    return Panel(metric, title, "ms", lines, areas=tuple(area for area in areas if area is not None))


def _queue_lines(probes: Iterable[str]) -> list[Line]:
    wanted = (("running", GREEN), ("waiting", ORANGE))
    return [
        Line(f"{word} (engine)", name, "value", colour)
        for word, colour in wanted
        for name in probes
        if name.startswith("engine") and word in name
    ][:4]


def _parts_panel(probes: Mapping[str, ProbeSeries]) -> Panel | None:
    """The mean step by its five parts, stacked; None where the target tells no parts."""
    series = {part: probes[name] for part in PARTS if (name := f"engine.step_{part}_ms") in probes}
    if len(series) < 2:
        return None
    areas = stacked_areas(series, dict(zip(PARTS, (SKY, ORANGE, GREEN, YELLOW, PURPLE), strict=True)))
    if not areas:
        return None
    return Panel("parts", "One engine step by its parts", "ms, mean", (), areas=areas)


def _probe_panels(probes: Sequence[str]) -> list[Panel]:
    clocks = [name for name in probes if "sm_clock" in name][:3]
    cpus = [name for name in probes if "cpu" in name and name.endswith("percent")][:3]
    colours = (PURPLE, ORANGE, BLUE)
    return [
        Panel(key, title, unit, tuple(Line(n, n, "value", c) for n, c in zip(names, colours, strict=False)))
        for key, title, unit, names in (
            ("clock", "GPU SM clock", "MHz", clocks),
            ("cpu", "CPU", "%", cpus),
        )
        if names
    ]
