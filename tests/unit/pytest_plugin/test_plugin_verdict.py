"""What becomes of a test by the verdict of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaosflow.core.result import (
    FaultResult,
    ObjectiveResult,
    RunResult,
    SegmentResult,
    SegmentVerdictResult,
)
from chaosflow.pytest_plugin import (
    ChaosFailure,
    ChaosWarning,
    MeasurementInvalid,
    NotUndone,
    SlaBroken,
    SlaUndecided,
)
from chaosflow.pytest_plugin.load import run_name, wanted_of
from chaosflow.pytest_plugin.verdicts import ChaosRun, enforce, explain

SENTENCE = "p95 is 412 ms: ttft over 200 ms in 280 of 302 requests (92.7 %, p95 allows 5 %)"
CODES = {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4, "error": 6}


def run(state: str = "fail", **changes: Any) -> ChaosRun:
    data: dict[str, Any] = {
        "run_id": "20261129-120000-jitter-0000",
        "name": "jitter",
        "state": state,
        "exit_code": CODES[state],
        "reason": f"ttft.p95 <= 200ms is broken: in jitter: {SENTENCE}",
        "started_utc": "2026-11-29T12:00:00Z",
        "ended_utc": "2026-11-29T12:01:00Z",
        "wall_s": 60.0,
        "timeline_s": 58.0,
        "seed": 7,
        "objectives": [
            ObjectiveResult(
                text="ttft.p95 <= 200ms", metric="ttft", kind="request_quantile", state=state, sentence="",
                segments=[SegmentVerdictResult(segment="jitter", state=state, sentence=SENTENCE)],
            )
        ],
        "segments": [SegmentResult(name="jitter", kind="fault", begin_s=0, end_s=10)],
        "faults": [
            FaultResult(
                name="jitter", kind="proxy.latency", planned_inject_s=0, inject_begin_s=0.0, confirmed=True,
                evidence="40.2 ms on 740 chunks", manual_undo="tc qdisc del …",
            )
        ],
    }  # fmt: skip
    return ChaosRun(RunResult(**{**data, **changes}), Path("runs/x"))


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        ("fail", SlaBroken),
        ("inconclusive", SlaUndecided),
        ("invalid", MeasurementInvalid),
        ("error", ChaosFailure),
    ],
)
def test_only_an_explicit_pass_passes(
    request: pytest.FixtureRequest, state: str, failure: type[ChaosFailure]
) -> None:
    """chaostoolkit-lib 45, 95: whatever is no pass must not look like one."""
    with pytest.raises(failure) as caught:
        enforce(request.node, run(state), "fail")
    assert type(caught.value) is failure
    assert caught.value.pytrace is False
    enforce(request.node, run("pass"), "fail")


def test_a_pass_that_ended_with_a_code_of_its_own_is_none(request: pytest.FixtureRequest) -> None:
    with pytest.raises(NotUndone, match="undo jitter by hand: tc qdisc del"):
        enforce(request.node, run("pass", exit_code=5), "fail")


def test_undecided_by_policy(request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.skip.Exception, match="inconclusive: ttft"):
        enforce(request.node, run("inconclusive"), "skip")
    with pytest.warns(ChaosWarning, match="inconclusive: ttft"):
        enforce(request.node, run("inconclusive"), "warn")
    with pytest.raises(SlaBroken):
        enforce(request.node, run("fail"), "skip")  # the policy is for the undecided alone


def test_a_fault_that_is_expected_to_break_the_sla(request: pytest.FixtureRequest) -> None:
    enforce(request.node, run("fail"), "fail", expect="fail")
    with pytest.raises(SlaBroken, match="the SLA held"):
        enforce(request.node, run("pass"), "fail", expect="fail")
    with pytest.raises(MeasurementInvalid):
        enforce(request.node, run("invalid"), "fail", expect="fail")


def test_the_text_names_window_numbers_fault_and_report_in_80_columns() -> None:
    text = explain(run())
    assert text.startswith("ttft.p95 <= 200ms is broken: in jitter: p95 is 412 ms")
    joined = " ".join(text.split())
    assert f"✗ in jitter: {SENTENCE}" in joined
    assert "fault jitter: proxy.latency, confirmed, still acting when this was judged: 40.2 ms" in joined
    assert "report: runs/x/report.html" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_holds_takes_one_line_however_many_windows() -> None:
    """A broken quickstart named thirty windows that hold, and one had to look for the two that did not."""

    def objective(text: str, *states: str) -> ObjectiveResult:
        parts = [
            SegmentVerdictResult(segment=f"fault-{i}", state=state, sentence=f"sentence {i}")
            for i, state in enumerate(states)
        ]
        state = "fail" if "fail" in states else "pass"
        return ObjectiveResult(
            text=text, metric="ttft", kind="request_quantile", state=state, sentence="holds in all 2 segments",
            segments=parts,
        )  # fmt: skip

    broken = objective("ttft.p95 <= 1s", "pass", "fail", "pass", "inconclusive")
    text = explain(run(objectives=[broken, objective("error_rate <= 1%", "pass", "pass")]))
    assert text.split("\n\n")[1].splitlines() == [
        "✗ ttft.p95 <= 1s",
        "    ✗ in fault-1: sentence 1",
        "    ? in fault-3: sentence 3",
        "    ✓ in fault-0, fault-2",
        "✓ error_rate <= 1%: holds in all 2 segments",
    ]


def test_parts_are_found_by_name_and_the_others_named() -> None:
    found = run()
    assert found.fault("jitter").confirmed
    assert found.segment("jitter").kind == "fault"
    with pytest.raises(KeyError, match="there are: 'jitter'"):
        found.segment("baseline")


def test_a_run_that_is_still_to_come_says_so() -> None:
    with pytest.raises(pytest.fail.Exception, match="just before the test's body"):
        _ = ChaosRun().state


def test_keywords_become_a_load() -> None:
    wanted = wanted_of("test_chat[h200-40]", ["ttft.p95 <= 1s"], {"rate_per_s": 5, "warmup": "250ms"})
    assert wanted.name == "test_chat-h200-40"
    assert wanted.warmup_s == 0.25
    assert wanted.load.arrival.rate_per_s == 5  # type: ignore[union-attr]
    assert run_name("[]") == "check"
