"""``junit.xml``: one test case per objective and segment, so that a CI server shows what broke where.

Only an explicit pass is green: an inconclusive or unjudged objective is a failure too, and the run's own
state is a test case of its own (an abort, or a fault that could not be undone, has no objective).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from chaosflow.core.result import ObjectiveResult, RunResult
from chaosflow.reports import words

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ERRORS = ("invalid", "error")


def render_junit(result: RunResult) -> str:
    """The whole file as text, with its XML declaration (UTF-8). Characters XML cannot hold become ``?``."""
    suite = ET.Element("testsuite")
    _property_list(suite, result)
    lengths = {s.name: s.end_s - s.begin_s for s in result.segments}
    _run_case(suite, result)
    for objective in result.objectives:
        _objective_cases(suite, result, objective, lengths)
    cases = suite.findall("testcase")
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(c.find("failure") is not None for c in cases)),
        "errors": str(sum(c.find("error") is not None for c in cases)),
        "skipped": "0",
    }
    for name, value in {"name": clean(result.name), **counts, "time": f"{result.wall_s:.3f}"}.items():
        suite.set(name, value)
    suite.set("timestamp", result.started_utc.split(".")[0].rstrip("Z"))
    root = ET.Element("testsuites", {"name": "chaosflow", **counts, "time": f"{result.wall_s:.3f}"})
    root.append(suite)
    ET.indent(root)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ET.tostring(root, encoding="unicode") + "\n"


def _property_list(suite: ET.Element, result: RunResult) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("run_id", result.run_id),
        ("seed", result.seed),
        ("state", result.state),
        ("exit_code", result.exit_code),
        ("reason", result.reason),
        ("simulated", "; ".join(result.simulated) or "nothing"),
        ("chaosflow", result.version),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": clean(str(value))})


def _run_case(suite: ET.Element, result: RunResult) -> None:
    case = _case(suite, result, "run", result.wall_s)
    if not words.is_green(result):
        state = words.shown_state(result)
        reason = f"exit code {result.exit_code}, {words.exit_words(result.exit_code)}: {result.reason}"
        _bad(case, state, reason, error=state in _ERRORS)


def _objective_cases(
    suite: ET.Element, result: RunResult, objective: ObjectiveResult, lengths: dict[str, float]
) -> None:
    if not objective.segments:
        case = _case(suite, result, objective.text, 0.0)
        state = words.objective_state(objective)
        if state != "pass":
            _bad(case, state, words.objective_sentence(objective), error=state in _ERRORS)
    for verdict in objective.segments:
        name = f"{objective.text} [{verdict.segment}]"
        case = _case(suite, result, name, max(0.0, lengths.get(verdict.segment, 0.0)))
        if verdict.state != "pass":
            _bad(case, verdict.state, verdict.sentence, error=verdict.state in _ERRORS)


def _case(suite: ET.Element, result: RunResult, name: str, time_s: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        {"classname": clean(result.name), "name": clean(name), "time": f"{time_s:.3f}"},
    )


def _bad(case: ET.Element, state: str, sentence: str, *, error: bool) -> None:
    found = ET.SubElement(
        case, "error" if error else "failure", {"type": clean(state), "message": clean(sentence)}
    )
    found.text = clean(sentence)


def clean(text: str) -> str:
    """``text`` with every character that XML cannot hold replaced by ``?``."""
    return _NOT_XML.sub("?", text)
