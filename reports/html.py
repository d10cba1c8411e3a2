"""``report.html``: one file, offline, verdict first, readable without JavaScript."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from chaosflow.core.result import Event, FaultResult, ProbeSeries, RunResult
from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.bokeh_charts import LEFT_PX, RIGHT_PX, bokeh_page
from chaosflow.reports.chartspec import ChartBook, chart_book
from chaosflow.reports.svg_charts import nice_ticks, svg_plot

MAX_BYTES = 2_000_000
"""A report is mailed and attached; reports of 100 MB (guidellm 984, pytest-html 552) are not."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much goes in; the next, smaller one is taken where the page would exceed ``MAX_BYTES``."""

    chart_rows: int
    events: int
    text_chars: int
    passing_details: bool


_DETAILS = (
    Detail(chart_rows=3000, events=1500, text_chars=4000, passing_details=True),
    Detail(chart_rows=1200, events=300, text_chars=600, passing_details=False),
    Detail(chart_rows=300, events=50, text_chars=160, passing_details=False),
)


def render_html(result: RunResult) -> str:
    """The whole page. Every text of the run is escaped; nothing in it is fetched from anywhere.

    Where a very long run would exceed ``MAX_BYTES``, charts and lists are shortened and the page says
    so; ``result.json`` always holds everything. Does not write a file.
    """
    page = ""
    for detail in _DETAILS:
        page = _render(result, detail)
        if len(page.encode()) <= MAX_BYTES:
            break
    return page


def _render(result: RunResult, detail: Detail) -> str:
    book = chart_book(result, detail.chart_rows)
    page: str = _template().render(
        r=result,
        state=words.shown_state(result),
        words=words,
        book=book,
        bokeh=bokeh_page(book) if book.panels else None,
        plots=[svg_plot(panel, book) for panel in book.panels],
        timeline=_timeline(result, book),
        left_px=LEFT_PX,
        right_px=RIGHT_PX,
        facts=_facts(result),
        warnings=_warnings(result),
        events=_shortened(result.events, detail),
        dropped_events=max(0, len(result.events) - detail.events),
        passing_details=detail.passing_details,
        shortened=detail is not _DETAILS[0] or book.reduced,
        probe_rows=[_probe_row(name, probe) for name, probe in sorted(result.probes.items())],
        scenario_yaml=yaml.safe_dump(result.scenario, sort_keys=False, allow_unicode=True)[
            : 50 * detail.text_chars
        ],
        command=shlex.join(result.command),
        clip=lambda text: _clip(str(text), detail.text_chars),
        duration=format_duration,
    )
    return page


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("chaosflow.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _facts(result: RunResult) -> list[tuple[str, str]]:
    """The few numbers below the verdict."""
    judged = [s for s in result.segments if s.kind != "warmup"]
    resolved, failed = sum(s.resolved for s in judged), sum(s.failed for s in judged)
    facts = [
        ("exit code", f"{result.exit_code}: {words.exit_words(result.exit_code)}"),
        ("duration", format_duration(result.wall_s)),
        ("requests", f"{resolved:,} judged, {failed:,} failed"),
        ("faults", f"{sum(f.confirmed for f in result.faults)} of {len(result.faults)} confirmed"),
        ("started", _utc(result.started_utc)),
    ]
    if result.aborted:
        facts.append(("aborted", result.aborted))
    return facts


def _utc(stamp: str) -> str:
    """``2026-03-02T10:15:00.120Z`` -> ``2026-03-02 10:15:00 UTC``."""
    return stamp.split(".")[0].rstrip("Z").replace("T", " ") + " UTC" if stamp else words.NONE


def _warnings(result: RunResult) -> list[tuple[str, str, str]]:
    """(state, text, command): what a reader must know before the numbers."""
    warnings = [
        (
            "error",
            f"{f.name} ({f.kind}) could not be undone and may still act. {f.error or f.revert_evidence}",
            f.manual_undo,
        )
        for f in result.faults
        if _not_undone(f)
    ]
    warnings += [
        ("invalid", f"{f.name} ({f.kind}): {f.error or f.evidence or 'its effect was not confirmed'}", "")
        for f in result.faults
        if not f.confirmed and not _not_undone(f)
    ]
    warnings += [("invalid", text, "") for text in result.client.lost_batches]
    return warnings + [("inconclusive", note, "") for note in result.notes]


def _not_undone(fault: FaultResult) -> bool:
    return fault.reversible and fault.inject_begin_s is not None and not fault.reverted


def _shortened(events: list[Event], detail: Detail) -> list[Event]:
    """The first and the last ones: how a run began and how it ended."""
    if len(events) <= detail.events:
        return events
    half = detail.events // 2
    return events[:half] + events[-half:]


def _clip(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A bar on the timeline; left and width in per cent."""

    label: str
    kind: str
    left: float
    width: float
    colour: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    parts: tuple[TimelinePart, ...]
    ticks: tuple[tuple[str, float], ...]


def _timeline(result: RunResult, book: ChartBook) -> Timeline:
    def place(begin_s: float, end_s: float) -> tuple[float, float]:
        length = book.end_s - book.begin_s
        return round(100 * (begin_s - book.begin_s) / length, 3), round(100 * (end_s - begin_s) / length, 3)

    parts = [
        TimelinePart("baseline", "baseline", *place(s.begin_s, s.end_s))
        for s in result.segments
        if s.kind == "baseline"
    ]
    colours = {band.name: band.colour for band in book.bands}
    parts += [
        TimelinePart("recovery", "recovery", *place(s.begin_s, s.end_s), colours.get(s.fault, "#888"))
        for s in result.segments
        if s.kind == "recovery"
    ]
    parts += [
        TimelinePart(b.name, "fault", *place(b.begin_s, b.end_s), b.colour, b.number) for b in book.bands
    ]
    ticks = ((f"{x:g} s", place(x, x)[0]) for x in nice_ticks(book.begin_s, book.end_s, 6))
    return Timeline(tuple(parts), tuple(ticks))


def _probe_row(name: str, probe: ProbeSeries) -> tuple[str, int, str, str, str]:
    """(name, readings, least, median, most)."""
    values = sorted(v for v in probe.value if v == v)
    if not values:
        return name, 0, words.NONE, words.NONE, words.NONE
    middle = values[(len(values) - 1) // 2]
    return name, len(values), words.number(values[0]), words.number(middle), words.number(values[-1])
