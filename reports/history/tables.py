"""History, comparison and nightly as a person reads them in a terminal, as rich renderables. Nothing here prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaosflow.core.units import counted, format_duration
from chaosflow.reports import words
from chaosflow.reports.history.compare import Comparison
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import METRICS
from chaosflow.reports.history.night import series_name
from chaosflow.reports.history.nightly_page import headline, rules
from chaosflow.reports.history.report import NightlyReport
from chaosflow.reports.terminal import STATE_STYLES, state_text

KEY_METRICS = ("ttft_p95_ms", "e2e_p95_ms", "error_share")
COMPARE_STATES = {
    "worse": ("✗", "red"),
    "better": ("✓", "green"),
    "undecided": ("?", "yellow"),
    "few": ("–", "dim"),
    "none": ("·", "dim"),
}
_UNITS = {"share": "%"}
_WHOLE = 40
"""A run's id up to this many characters stays in one line of the history."""
_SERIES_STYLES = {"regression": "red", "acknowledged": "yellow", "improved": "green"}


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=column in ("state", "when")
        )
    return table


def history_table(entries: Sequence[Entry]) -> RenderableType:
    """Run (which begins with its time), state and the key metrics. Fits 80 columns."""
    labels = [f"{METRICS[m].label} {_UNITS.get(METRICS[m].unit, METRICS[m].unit)}" for m in KEY_METRICS]
    table = _table("run", "state", *labels, right=labels)
    longest = max((len(entry.run_id) for entry in entries), default=0)
    table.columns[0].no_wrap = (
        longest <= _WHOLE
    )  # an id is there to be copied; figures may take two lines instead
    for entry in entries:
        spans = (_span(entry, metric) for metric in KEY_METRICS)
        table.add_row(Text(entry.run_id, overflow="fold"), state_text(entry.state), *spans)
    return Group(table, Text("First the baseline's, then the worst of the other segments.", style="dim"))


def _span(entry: Entry, metric: str) -> str:
    """``21.3 … 138``."""
    scale = 100 if METRICS[metric].unit == "share" else 1
    base = entry.values.get(("baseline", metric))
    others = [
        v.value for (segment, name), v in entry.values.items() if name == metric and segment != "baseline"
    ]
    first = words.number(base.value * scale) if base else words.NONE
    return f"{first} … {words.number(max(others) * scale)}" if others else first


def compare_table(comparisons: Sequence[Comparison], everything: bool) -> RenderableType:
    """What differs; ``everything`` shows the tests without a finding too."""
    rows = [c for c in comparisons if everything or c.state not in ("none", "few")]
    quiet, few = (sum(c.state == state for c in comparisons) for state in ("none", "few"))
    table = _table("state", "segment", "metric", "first -> second", "p", right=("p",))
    for c in rows:
        mark, style = COMPARE_STATES[c.state]
        bulk_or_tail = METRICS[c.metric].label
        p = "" if c.before is None else "<.0001" if c.p < 1e-4 else f"{c.p:.2g}"
        table.add_row(Text(f"{mark} {c.state}", style=style), Text(c.segment), bulk_or_tail, c.sentence, p)
    parts: list[RenderableType] = [table] if rows else []
    told = f"{quiet} of {len(comparisons)} tests show no change that matters"
    if few:
        told += f", {few} could not be made: too short, or too few samples"
    if quiet or few:
        parts.append(Text(f"{told} (--all lists them).", "dim"))
    return Group(*parts)


def nightly_table(report: NightlyReport) -> RenderableType:
    """Verdict, what changed, tonight's runs. Fits 80 columns."""
    style = STATE_STYLES.get(report.state, "magenta")
    mark = words.STATE_MARKS.get(report.state, "!")
    parts: list[RenderableType] = [
        Text.assemble(
            (f" {mark} {headline(report).upper()} ", f"bold reverse {style}"),
            (f"  {report.suite}", "bold"),
            (f"  exit code {report.exit_code}", "dim"),
        ),
        Padding(Text(report.reason), (0, 0, 0, 2)),
    ]
    changed = [s for s in report.series if s.state in _SERIES_STYLES]
    if changed:
        table = _table("  state", "what changed")
        for s in changed[:20]:
            text = Text(series_name(s), style="bold").append(f"\n{s.sentence}", style="not bold dim")
            table.add_row(Text(f"  {s.state}", style=_SERIES_STYLES[s.state]), text)
        parts += [Text(), table]
        if len(changed) > 20:
            parts.append(Text(f"  and {len(changed) - 20} more, on the page"))
    table = _table("  scenario", "state", "runs", "nights", "reason", right=("runs", "nights"))
    for scenario in report.scenarios:
        table.add_row(
            f"  {scenario.name}", _state(scenario.state), str(len(scenario.runs)), str(scenario.nights),
            Text(scenario.reason, style="dim"),
        )  # fmt: skip
        if scenario.new_series:
            fields = "; ".join(scenario.new_series[:4])
            table.add_row("", "", "", "", Text(f"a new series begins: {fields}", style="yellow"))
    parts += [Text(), table, Text()]
    parts += [Padding(Text(f"Note: {note}", style="yellow"), (0, 0, 0, 2)) for note in report.notes]
    parts.append(Padding(Text(rules(report), style="dim"), (0, 0, 0, 2)))
    return Group(*parts)


def _state(state: str) -> Text:
    return state_text(state) if state in STATE_STYLES else Text(state, style="dim")


def pruned_words(count: int, age_s: float) -> str:
    return f"{counted(count, 'run')} that began more than {format_duration(age_s)} ago were forgotten; no folder was touched"
