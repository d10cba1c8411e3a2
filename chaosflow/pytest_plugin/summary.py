"""The section at the end of a session: every run with its verdict and its report."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

import pytest

from chaosflow.pytest_plugin.verdicts import Outcome, shown

_MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
_COLOURS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = list(_outcomes(terminalreporter))
    if not outcomes:
        return
    terminalreporter.ensure_newline()  # else the first write_line below ends the line of its own state
    terminalreporter.section("chaosflow")
    for nodeid, outcome in outcomes:
        _show(terminalreporter, nodeid, outcome)
    for text in dict.fromkeys(text for _, o in outcomes for text in o["simulated"]):
        for line in textwrap.wrap(f"simulated: {text}", _width(terminalreporter), subsequent_indent="  "):
            terminalreporter.write_line(line)
    counts = Counter(outcome["state"] for _, outcome in outcomes)
    total = ", ".join(f"{n} {state}" for state, n in sorted(counts.items(), key=lambda pair: -pair[1]))
    terminalreporter.write_line(f"{len(outcomes)} run{'s' * (len(outcomes) > 1)}: {total}")


def _outcomes(terminalreporter: pytest.TerminalReporter) -> Any:
    """(test, outcome) in the order in which they came, from every process."""
    seen: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for outcome in getattr(report, "chaosflow", ()):
                if outcome["run_id"] not in seen:
                    seen.add(outcome["run_id"])
                    yield report.nodeid, outcome


def _show(terminalreporter: pytest.TerminalReporter, nodeid: str, outcome: Outcome) -> None:
    state = outcome["state"]
    colour = {_COLOURS.get(state, "purple"): True}
    terminalreporter.write(f"{_MARKS.get(state, '!')} {state:<12} ", **colour)
    terminalreporter.write_line(nodeid.partition("@chaosflow")[0], bold=True)
    width = _width(terminalreporter)
    if state != "pass":
        for line in textwrap.wrap(outcome["reason"], width - 4, break_on_hyphens=False):
            terminalreporter.write_line(f"    {line}")
    terminalreporter.write_line(f"    {shown(outcome['report'])}", light=True)


def _width(terminalreporter: pytest.TerminalReporter) -> int:
    return int(terminalreporter._tw.fullwidth)
