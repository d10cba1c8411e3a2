"""junit.xml: what a CI server makes of a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_result import sample

from chaosflow.core.result import ObjectiveResult
from chaosflow.reports.junit import render_junit


def _suite(text: str) -> ET.Element:
    suite = ET.fromstring(text.split("?>", 1)[1]).find("testsuite")
    assert suite is not None
    return suite


def test_one_case_per_objective_and_segment_and_one_for_the_run() -> None:
    result = sample()
    suite = _suite(render_junit(result))
    cases = suite.findall("testcase")
    assert len(cases) == 1 + sum(len(o.segments) for o in result.objectives)
    assert suite.get("tests") == str(len(cases))
    broken = [c.get("name") for c in cases if c.find("failure") is not None]
    assert broken == ["run", "e2e.p99 <= 800ms [gpu-clock-throttle]"]
    assert {c.get("classname") for c in cases} == {"demo"}
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["exit_code"] == "1"
    assert properties["seed"] == "7"


def test_pass_is_green() -> None:
    suite = _suite(render_junit(sample("pass")))
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")


def test_inconclusive_is_not_green() -> None:
    suite = _suite(render_junit(sample("inconclusive")))
    assert {f.get("type") for f in suite.iter("failure")} == {"inconclusive"}
    assert suite.get("failures") == "2"


def test_objective_without_samples_is_a_failing_case() -> None:
    """k6 1346."""
    unjudged = ObjectiveResult(
        text="tpot.p99 <= 50ms", metric="tpot", kind="request_quantile", state="pass", sentence=""
    )
    suite = _suite(render_junit(sample("inconclusive", objectives=[unjudged])))
    case = suite.findall("testcase")[1]
    assert case.get("name") == "tpot.p99 <= 50ms"
    assert case.find("failure") is not None


@pytest.mark.parametrize(("state", "code"), [("pass", 5), ("pass", 130), ("invalid", 4)])
def test_run_that_proves_nothing_is_an_error(state: str, code: int) -> None:
    """chaostoolkit-lib 45: a failed run looked green."""
    suite = _suite(render_junit(sample(state, exit_code=code)))
    assert suite.get("errors") == "1"


@given(st.text())
def test_any_text_gives_well_formed_xml(text: str) -> None:
    result = sample(name=text, reason=text)
    result.objectives[0].segments[3].sentence = text
    _suite(render_junit(result)).findall("testcase")
