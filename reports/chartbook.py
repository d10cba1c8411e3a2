"""A run's charts, made ready: samples reduced, limits placed, faults as bands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from chaosflow.core.result import ObjectiveResult, ProbeSeries, RunResult, Series
from chaosflow.reports.chartspec import BAND_COLOURS, BAND_HATCHES, MAIN, Band, ChartBook, Limit, Panel
from chaosflow.reports.downsample import Column, column_of, downsample
from chaosflow.reports.panels import panels

DATA_BYTES = 600_000
"""Of all that the charts are drawn from."""
_ENCODED = 16 / 3
"""Bytes of one 32-bit number in base64."""


def chart_book(result: RunResult, max_rows: int = 3000) -> ChartBook:
    """The charts of a run; a panel whose lines have no sample at all is left out.

    Rows are reduced (minima and maxima kept) to ``max_rows``, and further to stay within ``DATA_BYTES``.
    """
    sources = _sources(result)
    shown = [p for p in panels(result) if _has_samples(p, sources)]
    used = {(line.source, line.column) for panel in shown for line in panel.lines}
    sources = {
        name: {c: v for c, v in columns.items() if c == "t" or (name, c) in used}
        for name, columns in sources.items()
        if any(name == source for source, _ in used)
    }
    rows = min(max_rows, _affordable_rows(shown, sources))
    reduced = result.series.reduced or any(len(columns["t"]) > rows for columns in sources.values())
    sources = {name: _fewer(columns, rows) for name, columns in sources.items()}
    begin_s, end_s = _extent(result, sources)
    finished = tuple(_with_limits(panel, sources, result) for panel in shown)
    return ChartBook(finished, tuple(_bands(result)), sources, begin_s, end_s, reduced)


def _sources(result: RunResult) -> dict[str, dict[str, Column]]:
    main = _main_columns(result.series)
    found = {MAIN: main} if len(main["t"]) else {}
    return found | {name: _probe_columns(p) for name, p in result.probes.items() if p.t_s}


def _affordable_rows(panels: Sequence[Panel], sources: Mapping[str, Mapping[str, Column]]) -> int:
    """Rows of every source for which the data stays within its share of the page."""
    fixed = 60_000.0 + 6_000 * len(panels)
    fixed += sum(4 * len(area.t) * _ENCODED for panel in panels for area in panel.areas)
    fixed += sum(panel.heat.levels.size * _ENCODED / 4 for panel in panels if panel.heat)
    columns = sum(len(columns) for columns in sources.values()) or 1
    return max(50, int((DATA_BYTES - fixed) / _ENCODED / columns))


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
            colour=BAND_COLOURS[number % len(BAND_COLOURS)],
            hatch=BAND_HATCHES[number % len(BAND_HATCHES)],
            recovered_s=since + (recovery.seconds or 0.0) if recovery and reached else None,
        )


def _main_columns(series: Series) -> dict[str, Column]:
    names = [n for n in type(series).model_fields if n.endswith(("_ms", "_s", "_percent", "in_flight"))]
    names = [n for n in names if n not in ("window_s", "t_s") and "_low_" not in n and "_high_" not in n]
    rows = len(series.t_s)
    columns = {n: column_of(getattr(series, n)) for n in names if len(getattr(series, n)) == rows}
    return {"t": column_of(series.t_s), **columns}


def _probe_columns(probe: ProbeSeries) -> dict[str, Column]:
    rows = min(len(probe.t_s), len(probe.value))
    return {"t": column_of(probe.t_s[:rows]), "value": column_of(probe.value[:rows])}


def _fewer(columns: dict[str, Column], max_rows: int) -> dict[str, Column]:
    t, rest = downsample(columns["t"], {k: v for k, v in columns.items() if k != "t"}, max_rows)
    return {"t": t, **rest}


def _values(panel: Panel, sources: dict[str, dict[str, Column]]) -> list[Column]:
    found = (sources.get(line.source, {}).get(line.column) for line in panel.lines)
    return [values for values in found if values is not None and not np.isnan(values).all()]


def _has_samples(panel: Panel, sources: dict[str, dict[str, Column]]) -> bool:
    return bool(panel.heat or panel.stacked or _values(panel, sources))


def _with_limits(panel: Panel, sources: dict[str, dict[str, Column]], result: RunResult) -> Panel:
    if panel.heat is not None:
        return panel
    lines = tuple(line for line in panel.lines if line.column in sources.get(line.source, {}))
    values = [*_values(panel, sources), *(area.high for area in panel.areas if panel.stacked)]
    top = max(float(np.nanmax(column)) for column in values)
    limits = [limit for o in result.objectives if o.metric == panel.key for limit in _limits_of(o, result)]
    drawn = tuple(limit for limit in limits if limit.y <= 3 * top)
    hidden = tuple(limit for limit in limits if limit not in drawn)
    y_max = max([top, *(limit.y for limit in drawn)]) * 1.08 or 1.0
    return replace(panel, lines=lines, limits=drawn, y_max=y_max, hidden_limits=hidden)


def _limits_of(objective: ObjectiveResult, result: RunResult) -> Iterable[Limit]:
    """Limits of a time in ms, of a share in %; a relative objective has one for each segment, resolved."""
    if objective.kind.endswith("_quantile"):
        factor = 1e3
    elif objective.metric == "error_rate":
        factor = 100.0
    else:
        return
    spans = {s.name: (s.begin_s, s.end_s) for s in result.segments}
    by_limit: dict[float, list[tuple[float, float]]] = {}
    for verdict in objective.segments:
        if verdict.limit is not None and verdict.segment in spans:
            by_limit.setdefault(verdict.limit * factor, []).append(spans[verdict.segment])
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
