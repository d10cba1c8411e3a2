"""The nightly for machines and for a pull request: Markdown summary, JUnit, JSON; and all files at once."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

from chaosflow.core.errors import ChaosflowError
from chaosflow.reports import words
from chaosflow.reports.history.metrics import METRICS, shown
from chaosflow.reports.history.night import change_of
from chaosflow.reports.history.nightly_page import headline, render_nightly, rules
from chaosflow.reports.history.report import NightlyReport, ScenarioReport, SeriesReport
from chaosflow.reports.junit import clean
from chaosflow.reports.writer import error_words, write_atomically

FILES = {"page": "nightly.html", "summary": "nightly.md", "junit": "junit.xml", "json": "nightly.json"}
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_MAX_ROWS = 50


def write_nightly(report: NightlyReport, folder: Path) -> dict[str, Path]:
    """Write page, summary, JUnit and JSON into ``folder``, and append the summary to ``$GITHUB_STEP_SUMMARY``.

    Returns what was written; raises ChaosflowError naming the rest.
    """
    written: dict[str, Path] = {}
    failures: list[str] = []
    renderers: dict[str, Callable[[], str]] = {
        "json": lambda: report.model_dump_json(indent=1) + "\n",
        "page": lambda: render_nightly(report),
        "summary": lambda: markdown(report),
        "junit": lambda: junit(report),
    }
    for name, render in renderers.items():
        try:
            write_atomically(folder / FILES[name], render())
            written[name] = folder / FILES[name]
        except Exception as e:  # one that fails costs no other
            failures.append(f"{FILES[name]}: {error_words(e)}")
    if summary := os.environ.get(STEP_SUMMARY):
        try:
            with Path(summary).open("a") as file:
                file.write(markdown(report) + "\n")
        except OSError as e:
            failures.append(f"${STEP_SUMMARY} {summary}: {e.strerror}")
    if failures:
        raise ChaosflowError(
            str(folder),
            f"could not write {'; '.join(failures)}",
            "free some space, or choose another --runs-dir; 'chaosflow nightly … --no-run' judges the night again",
        )
    return written


def markdown(report: NightlyReport) -> str:
    """GitHub's flavour: verdict, what changed, tonight's scenarios."""
    mark = words.STATE_MARKS.get(report.state, "!")
    lines = [f"## {mark} {headline(report)}: nightly {_cell(report.suite)}", "", _cell(report.reason), ""]
    changed = [s for s in report.series if s.state in ("regression", "acknowledged", "improved")]
    if changed:
        lines += [
            "| | scenario | segment | metric | before | now | change | |",
            "|---|---|---|---|--:|--:|--:|---|",
        ]
        lines += [_row(s) for s in changed[:_MAX_ROWS]]
        if len(changed) > _MAX_ROWS:
            lines.append(f"\n… and {len(changed) - _MAX_ROWS} more.")
        lines.append("")
    lines += ["| scenario | state | runs | nights | reason |", "|---|---|--:|--:|---|"]
    lines += [
        f"| {_cell(s.name)} | {s.state} | {len(s.runs)} | {s.nights} | {_cell(s.reason)} |"
        for s in report.scenarios
    ]
    for scenario in report.scenarios:
        if scenario.new_series:
            fields = "; ".join(scenario.new_series[:8])
            lines += ["", f"**{_cell(scenario.name)}** begins a new series: {_cell(fields)}"]
    lines += ["", f"<sub>{_cell(rules(report))} Exit code {report.exit_code}. {report.session}</sub>", ""]
    return "\n".join(lines)


def _row(s: SeriesReport) -> str:
    cells = [
        s.state, s.scenario, s.segment, METRICS[s.metric].label, shown(s.metric, s.reference),
        shown(s.metric, s.now), change_of(s), s.sentence,
    ]  # fmt: skip
    return "| " + " | ".join(_cell(c) for c in cells) + " |"


def _cell(text: str) -> str:
    """One line, and nothing in it that Markdown or HTML would take for its own."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return flat.replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


def junit(report: NightlyReport) -> str:
    """One suite a scenario: a case for its state tonight and one for every series."""
    root = ET.Element("testsuites", {"name": "chaosflow nightly"})
    for scenario in report.scenarios:
        _suite(root, scenario, [s for s in report.series if s.scenario == scenario.name], report)
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in root:
        cases = suite.findall("testcase")
        own = {
            "tests": len(cases),
            "failures": sum(c.find("failure") is not None for c in cases),
            "errors": sum(c.find("error") is not None for c in cases),
            "skipped": sum(c.find("skipped") is not None for c in cases),
        }
        for name, number in own.items():
            suite.set(name, str(number))
            counts[name] += number
    for name, number in counts.items():
        root.set(name, str(number))
    ET.indent(root)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ET.tostring(root, encoding="unicode") + "\n"


def _suite(
    root: ET.Element, scenario: ScenarioReport, series: list[SeriesReport], report: NightlyReport
) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": clean(scenario.name)})
    suite.set("timestamp", report.started_utc.split(".")[0].rstrip("Z"))
    case = _case(suite, scenario.name, "tonight")
    if scenario.state == "not run":
        _mark(case, "skipped", scenario.state, scenario.reason)
    elif scenario.state != "pass":
        kind = "failure" if scenario.state in ("fail", "inconclusive") else "error"
        _mark(case, kind, scenario.state, scenario.reason)
    for s in series:
        case = _case(suite, scenario.name, f"{METRICS[s.metric].label} [{s.segment}]")
        if s.state == "regression":
            _mark(case, "failure", s.state, s.sentence)
        elif s.state == "learning":
            _mark(case, "skipped", s.state, s.sentence)


def _case(suite: ET.Element, scenario: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": clean(f"nightly.{scenario}"), "name": clean(name)})


def _mark(case: ET.Element, kind: str, state: str, sentence: str) -> None:
    found = ET.SubElement(case, kind, {"message": clean(f"{state}: {sentence}")})
    if kind != "skipped":
        found.set("type", state)
        found.text = clean(sentence)
