"""What the charts show, apart from how they are drawn: panels, lines, limits and fault bands of one run.

Times are seconds from the beginning of the baseline. Colours are those of Okabe and Ito (2008), which
people with any common colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chaosflow.core.result import ObjectiveResult, ProbeSeries, RunResult, Series
from chaosflow.reports.downsample import Column, downsample

SKY, BLUE, VERMILLION, GREEN = "#56b4e9", "#0072b2", "#d55e00", "#009e73"
ORANGE, PURPLE, YELLOW = "#e69f00", "#cc79a7", "#f0e442"
_BAND_COLOURS = (ORANGE, PURPLE, GREEN, YELLOW, SKY)
_BAND_HATCHES = ("right_diagonal_line", "left_diagonal_line", "dot", "horizontal_line", "vertical_line")
MAIN = "load"
"""Key of the source that holds the columns of ``RunResult.series``."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: ``column`` of ``source``."""

    label: str
    source: str
    column: str
    colour: str
    width: float = 1.6


@dataclass(frozen=True, slots=True)
class Limit:
    """An objective's limit, drawn only over the spans in which it is judged."""

    label: str
    y: float
    spans: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the column of charts."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    limits: tuple[Limit, ...] = ()
    y_max: float = 1.0
    hidden_limits: tuple[Limit, ...] = ()
    """Limits too far above the curves to be drawn; the caption names them."""


@dataclass(frozen=True, slots=True)
class Band:
    """One fault on the time axis; ``end_s`` is the revert, or the end of the run where there was none."""

    number: int
    name: str
    kind: str
    begin_s: float
    end_s: float
    colour: str
    hatch: str
    recovered_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChartBook:
    """All charts of a run; every panel shares the time axis ``begin_s`` to ``end_s``."""

    panels: tuple[Panel, ...]
    bands: tuple[Band, ...]
    sources: dict[str, dict[str, Column]]
    """Source name -> column name -> values; ``t`` is the time."""
    begin_s: float
    end_s: float
    reduced: bool = False
    """Whether rows were left out (minima and maxima kept)."""


def chart_book(result: RunResult, max_rows: int = 3000) -> ChartBook:
    """The charts of a run; a panel whose lines have no sample at all is left out."""
    bands = tuple(_bands(result))
    main = _main_columns(result.series)
    sources = {MAIN: main} if len(main["t"]) else {}
    probes = {name: p for name, p in result.probes.items() if p.t_s}
    sources |= {name: _probe_columns(p) for name, p in probes.items()}
    reduced = any(len(columns["t"]) > max_rows for columns in sources.values())
    sources = {name: _fewer(columns, max_rows) for name, columns in sources.items()}
    panels = [_with_limits(p, sources, result) for p in _panels(probes) if _has_samples(p, sources)]
    used = {line.source for panel in panels for line in panel.lines}
    sources = {name: columns for name, columns in sources.items() if name in used}
    begin_s, end_s = _extent(result, sources)
    return ChartBook(tuple(panels), bands, sources, begin_s, end_s, reduced)


def _panels(probes: Iterable[str]) -> list[Panel]:
    quantiles = [
        Panel(key, title, "ms", _quantile_lines(key))
        for key, title in (
            ("ttft", "Time to first token"),
            ("gap", "Gap between tokens"),
            ("e2e", "End to end"),
        )
    ]
    return [
        *quantiles,
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
        Panel(
            "concurrency",
            "Under way at once",
            "requests",
            (Line("in flight (client)", MAIN, "in_flight", BLUE, 1.8), *_queue_lines(probes)),
        ),
        *_probe_panels(probes),
    ]


def _quantile_lines(metric: str) -> tuple[Line, ...]:
    return tuple(
        Line(p.upper(), MAIN, f"{metric}_{p}_ms", colour, width)
        for p, colour, width in (("p50", SKY, 1.6), ("p95", BLUE, 1.9), ("p99", VERMILLION, 1.6))
    )


def _queue_lines(probes: Iterable[str]) -> list[Line]:
    wanted = (("running", GREEN), ("waiting", ORANGE))
    return [
        Line(f"{word} (engine)", name, "value", colour)
        for word, colour in wanted
        for name in probes
        if name.startswith("engine") and word in name
    ][:4]


def _probe_panels(probes: Iterable[str]) -> list[Panel]:
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


def _bands(result: RunResult) -> Iterable[Band]:
    last = max((s.end_s for s in result.segments), default=0.0)
    injected = [f for f in result.faults if f.inject_begin_s is not None]
    for number, fault in enumerate(injected):
        begin = fault.inject_ack_s if fault.inject_ack_s is not None else fault.inject_begin_s or 0.0
        end = fault.revert_begin_s if fault.reversible else begin
        end = max(begin, last) if end is None else end
        recovery = fault.recovery
        reached = recovery is not None and recovery.measured and recovery.seconds is not None
        since = fault.revert_ack_s if fault.revert_ack_s is not None else end
        yield Band(
            number=result.faults.index(fault) + 1,
            name=fault.name,
            kind=fault.kind,
            begin_s=begin,
            end_s=end,
            colour=_BAND_COLOURS[number % len(_BAND_COLOURS)],
            hatch=_BAND_HATCHES[number % len(_BAND_HATCHES)],
            recovered_s=since + (recovery.seconds or 0.0) if recovery and reached else None,
        )


def _main_columns(series: Series) -> dict[str, Column]:
    names = [n for n in type(series).model_fields if n not in ("window_s", "t_s")]
    rows = len(series.t_s)
    columns = {n: _column(getattr(series, n)) for n in names if len(getattr(series, n)) == rows}
    return {"t": _column(series.t_s), **columns}


def _probe_columns(probe: ProbeSeries) -> dict[str, Column]:
    rows = min(len(probe.t_s), len(probe.value))
    return {"t": _column(probe.t_s[:rows]), "value": _column(probe.value[:rows])}


def _column(values: Sequence[float | None]) -> Column:
    column = np.array([np.nan if v is None else v for v in values], dtype=np.float32)
    column[~np.isfinite(column)] = np.nan
    return column


def _fewer(columns: dict[str, Column], max_rows: int) -> dict[str, Column]:
    t, rest = downsample(columns["t"], {k: v for k, v in columns.items() if k != "t"}, max_rows)
    return {"t": t, **rest}


def _values(panel: Panel, sources: dict[str, dict[str, Column]]) -> list[Column]:
    found = (sources.get(line.source, {}).get(line.column) for line in panel.lines)
    return [values for values in found if values is not None and not np.isnan(values).all()]


def _has_samples(panel: Panel, sources: dict[str, dict[str, Column]]) -> bool:
    return bool(_values(panel, sources))


def _with_limits(panel: Panel, sources: dict[str, dict[str, Column]], result: RunResult) -> Panel:
    lines = tuple(line for line in panel.lines if line.column in sources.get(line.source, {}))
    top = max(float(np.nanmax(values)) for values in _values(panel, sources))
    limits = [limit for o in result.objectives if o.metric == panel.key for limit in _limits_of(o, result)]
    drawn = tuple(limit for limit in limits if limit.y <= 3 * top)
    hidden = tuple(limit for limit in limits if limit not in drawn)
    y_max = max([top, *(limit.y for limit in drawn)]) * 1.08 or 1.0
    return Panel(panel.key, panel.title, panel.unit, lines, drawn, y_max, hidden)


def _limits_of(objective: ObjectiveResult, result: RunResult) -> Iterable[Limit]:
    """Limits of a time in ms; a relative objective has one for each segment, resolved."""
    if not objective.kind.endswith("_quantile"):
        return
    spans = {s.name: (s.begin_s, s.end_s) for s in result.segments}
    by_limit: dict[float, list[tuple[float, float]]] = {}
    for verdict in objective.segments:
        if verdict.limit is not None and verdict.segment in spans:
            by_limit.setdefault(verdict.limit * 1e3, []).append(spans[verdict.segment])
    for y, judged in by_limit.items():
        yield Limit(objective.text, y, tuple(_joined(sorted(judged))))


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Neighbouring spans as one, so that a limit over a whole run is one dashed line."""
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        if joined and begin - joined[-1][1] < 0.5:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _extent(result: RunResult, sources: dict[str, dict[str, Column]]) -> tuple[float, float]:
    edges = [x for s in result.segments for x in (s.begin_s, s.end_s)]
    edges += [float(x) for c in sources.values() for x in (c["t"][0], c["t"][-1])]
    begin, end = min(edges, default=0.0), max(edges, default=1.0)
    return begin, end if end > begin else begin + 1.0
