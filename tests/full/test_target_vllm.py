"""``chaosflow run`` against vLLM on CPU: shapes, counts and verdicts; its latencies here prove nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from target_process import TargetProcess
from target_run import (
    FinishedRun,
    assert_every_stream_whole,
    assert_faults_worked,
    assert_left_alone,
    chaosflow_run,
    scenario_for,
)

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

TOKENS = 8
RATE_PER_S = 4
LOAD: dict[str, Any] = {
    "arrival": {"kind": "constant", "rate_per_s": RATE_PER_S},
    "prompt_tokens": 24,
    "output_tokens": TOKENS,
    "deadline": "60s",
}
SLOW_LINE: dict[str, Any] = {
    "name": "slow-line",
    "type": "proxy.latency",
    "duration": "6s",
    "params": {"delay_ms": 100, "jitter_ms": 40},
}
FREEZE: dict[str, Any] = {"name": "freeze", "type": "process.pause", "after": "slow-line", "duration": "3s"}
STARVED: dict[str, Any] = {
    "name": "starved",
    "type": "host.cpu_quota",
    "after": "freeze",
    "duration": "6s",
    "params": {"percent": 60},  # of one CPU; its spinning processes would use two
}


@pytest.fixture(scope="module")
def generous(vllm: TargetProcess, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run with every fault that this machine allows and limits that a slow machine keeps."""
    faults: list[dict[str, Any]] = [SLOW_LINE, FREEZE, *([STARVED] if vllm.cpu_cgroup else [])]
    scenario = scenario_for(
        vllm,
        load=LOAD,
        phases={"warmup": "5s", "baseline": "22s", "recovery": "10s"},
        faults=faults,
        objectives=["e2e.p50 <= 30s", "error_rate <= 50%", "completeness >= 50%"],
    )
    return chaosflow_run(scenario, tmp_path_factory.mktemp("generous"), timeout_s=180)


def test_vllm_passes_generous_limits(generous: FinishedRun) -> None:
    assert generous.exit_code == 0, generous.explain()
    assert generous.result.simulated == []


def test_vllm_is_stopped_throttled_and_delayed_as_a_whole(generous: FinishedRun, vllm: TargetProcess) -> None:
    """The API process listens; engine core and worker are its children and must stop with it."""
    assert_faults_worked(generous, ["slow-line", "freeze"] + (["starved"] if vllm.cpu_cgroup else []))
    stopped = int(generous.fault("freeze").evidence.split()[0])
    assert stopped >= 2, generous.fault("freeze").evidence
    assert (generous.segment("freeze").e2e.max_ms or 0) > 1500


def test_vllm_streams_are_whole_however_it_merges_tokens(generous: FinishedRun) -> None:
    """sglang 24254: lengths by usage, while events may be fewer than tokens."""
    assert_every_stream_whole(generous, TOKENS, at_least=RATE_PER_S * 30)
    assert all(r["saw_done"] for r in generous.records() if r["outcome"] == "ok")


def test_vllm_is_left_as_it_was(generous: FinishedRun, vllm: TargetProcess) -> None:
    assert_left_alone(vllm)


def test_vllm_breaks_a_tight_limit_in_the_segment_of_the_fault(vllm: TargetProcess, tmp_path: Path) -> None:
    limit = "ttft.p50 <= 4s during slow-line"
    scenario = scenario_for(
        vllm,
        load={**LOAD, "endpoint": "completions"},
        phases={"warmup": "2s", "baseline": "6s", "recovery": "8s"},
        faults=[{**SLOW_LINE, "params": {"delay_ms": 6000}}],
        objectives=[limit, "error_rate <= 50%"],
    )
    run = chaosflow_run(scenario, tmp_path, timeout_s=90)
    assert run.exit_code == 1, run.explain()
    assert run.states()[limit] == {"slow-line": "fail"}
    assert set(run.states()["error_rate <= 50%"].values()) == {"pass"}
    assert_faults_worked(run, ["slow-line"])
    assert_every_stream_whole(run, TOKENS, at_least=RATE_PER_S * 8)
    assert_left_alone(vllm)
