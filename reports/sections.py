"""Rows of the report's tables: errors, engine steps by part, probes, events, error budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from chaosflow.core.result import (
    BudgetResult,
    Event,
    FaultResult,
    ObjectiveResult,
    ProbeSeries,
    RunResult,
    SegmentResult,
)
from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.chartspec import ChartBook
from chaosflow.reports.panels import PARTS
from chaosflow.reports.sparkline import sparkline

_GOOD = ("ok", "cancelled")
MOST_ROWS = 60
"""Of one table; result.json has them all."""


@dataclass(frozen=True, slots=True)
class Table:
    """Column names, and rows of (name, cells)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def error_table(result: RunResult) -> Table:
    """Segments in which requests failed, by how they failed; empty where none did."""
    failing = sorted((s for s in result.segments if s.failed), key=lambda s: -s.failed)[:MOST_ROWS]
    failing.sort(key=lambda s: s.begin_s)
    kinds = tuple(sorted({k for s in failing for k, n in s.outcomes.items() if n and k not in _GOOD}))
    rows = tuple(
        (
            s.name,
            (
                f"{s.resolved:,}",
                f"{s.failed:,}",
                words.share(s.failed / s.resolved if s.resolved else None),
                *(f"{s.outcomes[k]:,}" if s.outcomes.get(k) else words.NONE for k in kinds),
            ),
        )
        for s in failing
    )
    return Table(("ended", "failed", "share", *(k.replace("_", " ") for k in kinds)), rows)


def parts_table(result: RunResult) -> Table:
    """Mean ms of one engine step by its five parts, per segment; empty where the target tells none."""
    series = {
        part: result.probes[name] for part in PARTS if (name := f"engine.step_{part}_ms") in result.probes
    }
    rows = []
    for segment in result.segments[:MOST_ROWS] if series else ():
        means = [_mean(probe, segment.begin_s, segment.end_s) for probe in series.values()]
        if any(mean is not None for mean in means):
            total = sum(mean or 0.0 for mean in means)
            rows.append((segment.name, tuple(words.number(m) for m in [*means, total])))
    return Table((*series, "step"), tuple(rows))


def _mean(probe: ProbeSeries, begin_s: float, end_s: float) -> float | None:
    values = [v for t, v in zip(probe.t_s, probe.value, strict=False) if begin_s <= t < end_s and v == v]
    return sum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of very many faults and segments is told in full."""

    faults: tuple[tuple[int, FaultResult], ...]
    """(number, fault), in the scenario's order."""
    others: tuple[tuple[int, FaultResult], ...]
    segments: tuple[SegmentResult, ...]
    left_out: int
    """Segments that are not shown."""


def notable(result: RunResult, most: int) -> Chosen:
    """At most so many faults in full: what is wrong first, then the longest recoveries, then the most requests lost."""
    numbered = list(enumerate(result.faults, 1))
    first = {number for number, _ in sorted(numbered, key=lambda pair: _notability(pair[1]))[:most]}
    faults = tuple(pair for pair in numbered if pair[0] in first)
    names = {fault.name for _, fault in faults}
    segments = tuple(s for s in result.segments if not s.fault or s.fault in names)
    others = tuple(pair for pair in numbered if pair[0] not in first)
    return Chosen(faults, others, segments, len(result.segments) - len(segments))


def _notability(fault: FaultResult) -> tuple[int, float, int]:
    """Smallest = first."""
    recovery = fault.recovery
    seconds = 0.0 if recovery is None or not recovery.measured else recovery.seconds
    lost = 0 if recovery is None else recovery.requests_lost
    return -words.severity(words.fault_state(fault)[0]), -math.inf if seconds is None else -seconds, -lost


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One series of a probe: its curve, and what it lay between."""

    name: str
    curve: Markup
    readings: int
    least: str
    median: str
    most: str


def probe_rows(result: RunResult, book: ChartBook, points: int) -> list[ProbeRow]:
    """Every series that was read, by name; ``points`` of each curve."""
    bands = [(b.begin_s, b.end_s, b.colour) for b in book.bands]
    found = []
    for name, probe in sorted(result.probes.items()):
        values = sorted(v for v in probe.value if v == v)
        if not values:
            continue
        curve = sparkline(
            probe.t_s, probe.value, label=f"{name} over the run",
            begin=book.begin_s, end=book.end_s, bands=bands if len(bands) <= 40 else (), points=points,
        )  # fmt: skip
        shown = (words.reading(name, v) for v in (values[0], values[(len(values) - 1) // 2], values[-1]))
        found.append(ProbeRow(name, curve, len(values), *shown))
    return found


def event_rows(events: Sequence[Event], baseline_utc: str) -> list[tuple[Event, str]]:
    """(event, its wall time in UTC); the time is empty where the baseline's is not known."""
    try:
        zero = datetime.fromisoformat(baseline_utc.replace("Z", "+00:00"))
    except ValueError:
        return [(event, "") for event in events]
    return [(event, _iso(zero + timedelta(seconds=event.at_s))) for event in events]


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def budget_lines(objective: ObjectiveResult) -> list[str]:
    """The error budget, the burn rates and the sliding window in words; empty where there is none."""
    lines = []
    if (budget := objective.budget) is not None and budget.n:
        allowed = budget.allowed_share * budget.n
        spent = "" if budget.spent is None else f": {words.share(budget.spent)} of the error budget"
        lines.append(
            f"{budget.bad:,} bad of {budget.n:,}, {words.number(allowed)} allowed over "
            f"{format_duration(budget.period_s)}{spent}."
        )
        lines += _burn_lines(budget)
    if (sliding := objective.sliding) is not None and sliding.alarms:
        first, more = sliding.alarms[0], len(sliding.alarms) - 1
        lines.append(
            f"A rule over the last {format_duration(sliding.window_s)} would have alarmed from {first.begin_s:.0f} s to "
            f"{first.end_s:.0f} s{f' (and {more} more times)' if more else ''}; it judges nothing."
        )
    return lines


def _burn_lines(budget: BudgetResult) -> list[str]:
    return [
        f"Burn rate over {format_duration(b.long_s)} at most {words.number(b.peak)}×"
        + (f" at {b.peak_at_s:.0f} s" if b.peak_at_s is not None else "")
        + f"; an alarm at {words.number(b.factor)}× ({_times(len(b.alarms))})."
        for b in budget.burn
        if b.peak
    ]


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
