"""``report.html``: one file, offline, verdict first, readable without JavaScript."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import yaml

from chaosflow.core.result import Event, FaultResult, RunResult
from chaosflow.core.units import format_duration
from chaosflow.reports import sections, words
from chaosflow.reports.bokeh_charts import bokeh_page
from chaosflow.reports.chartbook import chart_book
from chaosflow.reports.chartspec import ChartBook
from chaosflow.reports.page import MAX_BYTES, render_page, stamp
from chaosflow.reports.recovery_plot import recovery_plots
from chaosflow.reports.svg_charts import nice_ticks, svg_plot
from chaosflow.reports.worst_plot import worst_table


@dataclass(frozen=True, slots=True)
class Detail:
    """How much goes in; the next, smaller one is taken where the page would exceed ``MAX_BYTES``."""

    chart_rows: int
    events: int
    text_chars: int
    passing_details: bool
    svg_points: int = 600
    probe_points: int = 120
    curves: int = 24
    """Recovery curves."""
    faults: int = 30
    """Told in full; the others in one line each."""


_DETAILS = (
    Detail(chart_rows=3000, events=1500, text_chars=4000, passing_details=True),
    Detail(1200, 300, 600, passing_details=False, svg_points=400, probe_points=80, curves=12, faults=20),
    Detail(300, 50, 160, passing_details=False, svg_points=200, probe_points=40, curves=6, faults=12),
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
    return render_page(
        "report.html.j2",
        r=result,
        state=words.shown_state(result),
        book=book,
        bokeh=bokeh_page(book) if book.panels else None,
        plots=[svg_plot(panel, book, detail.svg_points) for panel in book.panels],
        timeline=_timeline(result, book),
        facts=_facts(result),
        chosen=sections.notable(result, detail.faults),
        warnings=_warnings(result),
        budget_lines=sections.budget_lines,
        recoveries=recovery_plots(result, detail.curves),
        errors=sections.error_table(result),
        parts_by_segment=sections.parts_table(result),
        worst=worst_table(result),
        probe_rows=sections.probe_rows(result, book, detail.probe_points),
        events=sections.event_rows(_shortened(result.events, detail), result.baseline_utc),
        dropped_events=max(0, len(result.events) - detail.events),
        passing_details=detail.passing_details,
        shortened=detail is not _DETAILS[0],
        scenario_yaml=yaml.safe_dump(result.scenario, sort_keys=False, allow_unicode=True)[
            : 50 * detail.text_chars
        ],
        command=shlex.join(result.command),
        clip=lambda text: _clip(str(text), detail.text_chars),
    )


def _facts(result: RunResult) -> list[tuple[str, str]]:
    """The few numbers below the verdict."""
    judged = [s for s in result.segments if s.kind not in ("warmup", "edge")]
    resolved, failed = sum(s.resolved for s in judged), sum(s.failed for s in judged)
    in_edges = sum(s.failed for s in result.segments if s.kind == "edge")
    beside = f"; {in_edges:,} more failed in edges" if in_edges else ""
    facts = [
        ("exit code", f"{result.exit_code}: {words.exit_words(result.exit_code)}"),
        ("duration", format_duration(result.wall_s)),
        ("requests", f"{resolved:,} judged, {failed:,} failed{beside}"),
        ("faults", f"{sum(f.confirmed for f in result.faults)} of {len(result.faults)} confirmed"),
        ("started", stamp(result.started_utc)),
    ]
    if result.aborted:
        facts.append(("aborted", result.aborted))
    return facts


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
    warnings += [_unseen(f) for f in result.faults if not f.confirmed and not _not_undone(f)]
    warnings += [("invalid", text, "") for text in result.client.lost_batches]
    return warnings + [("inconclusive", note, "") for note in result.notes]


def _unseen(fault: FaultResult) -> tuple[str, str, str]:
    """A fault whose effect nobody saw: it did not act, or its turn never came."""
    if fault.inject_begin_s is None and not fault.error:
        why = "was not injected: the run ended before its turn"
        return "inconclusive", f"{fault.name} ({fault.kind}) {why}", ""
    return (
        "invalid",
        f"{fault.name} ({fault.kind}): {fault.error or fault.evidence or 'its effect was not confirmed'}",
        "",
    )


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
