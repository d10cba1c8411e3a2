"""``nightly.html``: what changed first, then tonight's runs, then every series. One file, offline, no script."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import Any

from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.history.judge import BASELINE_NIGHTS, LEAST_NIGHTS
from chaosflow.reports.history.metrics import METRICS, shown
from chaosflow.reports.history.night import change_of
from chaosflow.reports.history.report import NightlyReport, SeriesReport
from chaosflow.reports.history.trend import spark, trend
from chaosflow.reports.page import render_page

_HEADLINES = {
    "pass": "No regression",
    "fail": "Regression",
    "inconclusive": "Undecided",
    "invalid": "Measurement broken",
    "error": "Error",
}
_CLIP_CHARS = 600
MAX_CHARTS = 40
"""Large charts on one page; what changed beyond that stands in the table."""


def render_nightly(report: NightlyReport) -> str:
    """The whole page. Every text is escaped; nothing is fetched from anywhere. Does not write a file."""
    changed = [s for s in report.series if s.state in ("regression", "acknowledged", "improved")]
    names = [s.name for s in report.scenarios]
    ordered = sorted(report.series, key=lambda s: names.index(s.scenario))
    return render_page(
        "nightly.html.j2",
        r=report,
        marks=words.STATE_MARKS,
        headline=headline(report),
        facts=_facts(report),
        changed=[(s, trend(s, _notes_for(s, report))) for s in changed[:MAX_CHARTS]],
        ran=any(s.runs or s.state == "refused" for s in report.scenarios),
        judged=sum(s.state != "learning" for s in report.series),
        groups=[
            (name, [(s, spark(s)) for s in rows]) for name, rows in groupby(ordered, key=lambda s: s.scenario)
        ],
        label=lambda metric: METRICS[metric].label,
        shown=shown,
        change_of=change_of,
        p_words=p_words,
        rules=rules(report),
        clip=lambda text: text if len(text) <= _CLIP_CHARS else text[: _CLIP_CHARS - 1] + "…",
    )


def headline(report: NightlyReport) -> str:
    """``Regression``; a failed objective without one says so."""
    if report.state == "fail" and not any(s.state == "regression" for s in report.series):
        return "Failed"
    return _HEADLINES.get(report.state, report.state)


def exit_words(code: int) -> str:
    """What a nightly's exit code means."""
    own = {0: "nothing is worse", 1: "a regression, or a failed objective", 3: "too little to decide"}
    return own.get(code) or words.exit_words(code)


def p_words(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def rules(report: NightlyReport) -> str:
    """How it was judged, in one sentence or three."""
    return (
        f"A change of times and rates counts from {words.share(report.min_effect)} on, of error shares from 1 point, "
        f"and with p below {report.alpha:.2g} a series (0.05 over all together). A series needs {LEAST_NIGHTS} nights; "
        f"drift is seen against its first {BASELINE_NIGHTS}. Another machine or setup begins a new series."
    )


def _notes_for(series: SeriesReport, report: NightlyReport) -> list[Any]:
    return [
        note
        for note in report.annotations
        if note.scenario in (None, series.scenario)
        and note.segment in (None, series.segment)
        and note.metric in (None, series.metric)
    ]


def _facts(report: NightlyReport) -> list[tuple[str, str]]:
    count = {state: sum(s.state == state for s in report.series) for state in ("regression", "acknowledged")}
    runs = sum(len(s.runs) for s in report.scenarios)
    facts = [
        ("exit code", f"{report.exit_code}: {exit_words(report.exit_code)}"),
        ("scenarios", f"{len(report.scenarios)}"),
        ("runs tonight", f"{runs}"),
        ("series", f"{len(report.series)}"),
        ("regressions", f"{count['regression']}"),
    ]
    if count["acknowledged"]:
        facts.append(("known changes", f"{count['acknowledged']}"))
    if (seconds := _seconds(report)) >= 1:
        facts.append(("took", format_duration(seconds)))
    return facts


def _seconds(report: NightlyReport) -> float:
    begin, end = (
        datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (report.started_utc, report.ended_utc)
    )
    return (end - begin).total_seconds()
