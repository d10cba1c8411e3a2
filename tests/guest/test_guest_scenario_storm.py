"""``chaosflow run network-storm``, whole, on a kernel that has netem: included engine, and llama.cpp's server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "targets"))

from llamacpp import llamacpp_server
from shipped_run import run_shipped
from target_process import TargetProcess
from target_run import FinishedRun, assert_left_alone
from tiny_model import make_tiny_model

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(420)]

CLOCK = "the wall clock jumped"
NAMES = ["long-line", "bursts", "narrow", "loss-too"]
SHORT: dict[str, Any] = {  # a guest has one CPU
    "load.arrival.rate_per_s": 12,
    "phases": "{warmup: 1s, baseline: 5s, recovery: 2s}",
    "faults.long-line.duration": "5s",
    "faults.bursts.duration": "5s",
    "faults.bursts.params.gemodel": "{p_percent: 2, r_percent: 40}",
    "faults.narrow.duration": "6s",
    "faults.narrow.params.rate_mbit_per_s": 0.4,
    "faults.loss-too.duration": "5s",
    "faults.loss-too.params.percent": 3,
    "sla": "{window: 5s, objectives: ['e2e.p50 <= 9s during baseline', 'error_rate <= 60% during baseline']}",
    "probes": "[]",
}


@pytest.fixture
def llamacpp(tmp_path: Path) -> Iterator[TargetProcess]:
    with llamacpp_server(make_tiny_model(tmp_path), tmp_path) as target:
        yield target


def test_network_storm_against_the_included_engine(tmp_path: Path) -> None:
    run = _storm({}, tmp_path)
    assert " waits" in run.fault("narrow").evidence, run.fault("narrow").evidence
    assert (run.segment("narrow").e2e.p95_ms or 0) > (run.segment("baseline").e2e.p50_ms or 0), run.explain()


def test_network_storm_against_llamacpp(llamacpp: TargetProcess, tmp_path: Path) -> None:
    """Its tokens cost real CPU time, of which a guest has little: fewer of them."""
    less = {"load.arrival.rate_per_s": 4, "load.prompt_tokens": 16, "load.output_tokens": 8}
    run = _storm(less | {"target.url": llamacpp.url}, tmp_path)
    assert run.result.simulated == []
    assert_left_alone(llamacpp)


def _storm(changes: dict[str, Any], folder: Path) -> FinishedRun:
    """The checked run; once more where a guest that the machine starved could not measure (``invalid``)."""
    for attempt in ("first", "second"):
        run, left = run_shipped("network-storm", SHORT | changes, folder / attempt, timeout_s=200)
        assert not left, left
        if run.exit_code != 4 or CLOCK in run.result.reason:
            break
    _check(run)
    return run


def _check(run: FinishedRun) -> None:
    """Each fault was confirmed by what it did, and shows where it acted; nothing is left of it."""
    # a guest that the machine starves has a wall clock that jumps, and a run says so and is invalid
    assert run.exit_code == 0 or CLOCK in run.result.reason, run.explain()
    assert [fault.name for fault in run.result.faults] == NAMES, run.explain()
    for fault in run.result.faults:
        assert fault.confirmed, f"{fault.name}: {fault.evidence} {fault.error}\n{run.explain()}"
        assert fault.reverted, run.explain()
    assert run.fault("long-line").rung.startswith("tc netem per flow"), run.fault("long-line").rung
    for name in ("bursts", "loss-too"):
        assert "dropped" in run.fault(name).evidence, run.fault(name).evidence
    # the quickest answers: what else the machine has to do can only lengthen them
    quickest = {s: _quickest_ms(run, s) for s in ("baseline", "long-line", "long-line.recovery", "bursts")}
    sys.stdout.write(f"network-storm, quickest first tokens: {quickest}\n")
    # 40 ± 15 ms each way, the least of about 50 on each
    assert quickest["long-line"] > quickest["baseline"] + 20, run.explain()
    assert (run.segment("long-line").ttft.p50_ms or 0) >= 65, run.explain()
    assert quickest["long-line.recovery"] < quickest["long-line"] - 10, run.explain()


def _quickest_ms(run: FinishedRun, segment: str) -> float:
    """The shortest time to a first token of those requests that began and got it in this segment."""
    span, warmup_s = run.segment(segment), 1.0
    begin, end = (1e6 * (warmup_s + s) for s in (span.begin_s, span.end_s))
    took = [
        (record["event_us"][0] - record["sched_us"]) / 1e3
        for record in run.records()
        if record["sched_us"] >= begin and record.get("event_us") and record["event_us"][0] <= end
    ]
    assert took, f"no first token in {segment}\n{run.explain()}"
    return min(took)
