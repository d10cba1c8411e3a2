"""``chaosflow run`` against llama.cpp's server, which knows nothing of ChaosFlow: are the verdicts right?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from llamacpp import llamacpp_server
from target_process import TargetProcess
from target_run import (
    FinishedRun,
    assert_every_stream_whole,
    assert_faults_worked,
    assert_left_alone,
    chaosflow_run,
    scenario_for,
)
from tiny_model import TinyModel

TOKENS = 16
RATE_PER_S = 15
LOAD: dict[str, Any] = {
    "arrival": {"kind": "poisson", "rate_per_s": RATE_PER_S},
    "prompt_tokens": 24,
    "output_tokens": TOKENS,
    "deadline": "20s",
}
SLOW_LINE: dict[str, Any] = {
    "name": "slow-line",
    "type": "proxy.latency",
    "duration": "6s",
    "params": {"delay_ms": 30, "jitter_ms": 10},
}
FREEZE: dict[str, Any] = {"name": "freeze", "type": "process.pause", "after": "slow-line", "duration": "1s"}
STARVED: dict[str, Any] = {
    "name": "starved",
    "type": "host.cpu_quota",
    "after": "freeze",
    "duration": "6s",
    "params": {"percent": 30},
}


@pytest.fixture(scope="module")
def generous(llamacpp: TargetProcess, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run with every fault that this machine allows and limits that a healthy server keeps."""
    faults: list[dict[str, Any]] = [SLOW_LINE, FREEZE, *([STARVED] if llamacpp.cpu_cgroup else [])]
    scenario = scenario_for(
        llamacpp,
        load=LOAD,
        phases={"warmup": "2s", "baseline": "22s", "recovery": "5s"},
        faults=faults,
        objectives=[
            "ttft.p90 <= 4s during baseline",
            "ttft.p90 <= 5s during slow-line",
            "e2e.p50 <= 8s",  # decided by 5 requests: the freeze has no more than about 20
            "error_rate <= 25%",
            "completeness >= 75%",
        ],
    )
    return chaosflow_run(scenario, tmp_path_factory.mktemp("generous"), timeout_s=110)


@pytest.mark.slow
def test_generous_limits_pass_on_a_healthy_server(generous: FinishedRun) -> None:
    assert generous.exit_code == 0, generous.explain()
    assert generous.result.state == "pass"
    assert generous.result.simulated == [], "nothing was simulated here, and the result says so"


@pytest.mark.slow
def test_every_fault_on_a_foreign_server_is_seen_in_effect(
    generous: FinishedRun, llamacpp: TargetProcess
) -> None:
    """chaosd 273, chaosblade 1315: success reported, no effect."""
    names = ["slow-line", "freeze"] + (["starved"] if llamacpp.cpu_cgroup else [])
    assert_faults_worked(generous, names)
    before = generous.segment("baseline").ttft.p50_ms or 0
    assert (generous.segment("slow-line").ttft.p50_ms or 0) > before + 15  # 30 ± 10 ms were asked
    assert (generous.segment("freeze").e2e.max_ms or 0) > 500  # some request waited for most of the second
    evidence = generous.fault("freeze").evidence
    assert "1 of 1 processes stopped" in evidence, evidence


@pytest.mark.slow
def test_streams_of_a_server_that_closes_after_each_are_whole(generous: FinishedRun) -> None:
    """SEMANTICS, stream parsing: ``content: null`` role chunk, ``choices: []`` with usage, close after keep-alive."""
    assert_every_stream_whole(generous, TOKENS, at_least=RATE_PER_S * 20)
    baseline = generous.segment("baseline")
    assert baseline.outcomes.get("ok") == baseline.resolved
    for record in generous.records():
        if record["outcome"] == "ok":
            assert len(record["event_us"]) == TOKENS, "llama.cpp sends each token in an event of its own"
            assert record["saw_done"], record


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="host.cpu_quota needs root to limit a foreign cgroup")
def test_a_cpu_quota_limits_the_foreign_servers_own_cgroup(
    generous: FinishedRun, llamacpp: TargetProcess
) -> None:
    if llamacpp.cpu_cgroup is None:
        pytest.skip("no cgroup with a cpu controller can be made here")
    evidence = generous.fault("starved").evidence
    assert f"30000 of 100000 µs in {llamacpp.cpu_cgroup.name}" in evidence, evidence


@pytest.mark.slow
def test_a_foreign_server_is_left_as_it_was(generous: FinishedRun, llamacpp: TargetProcess) -> None:
    """chaosblade 398: a SIGSTOP target not resumed; pumba 147: a limit left in place."""
    assert_left_alone(llamacpp)


@pytest.mark.slow
def test_a_tight_limit_fails_in_the_very_segment_of_the_fault(
    llamacpp: TargetProcess, tmp_path: Path
) -> None:
    """k6 2379: a threshold over the whole run dilutes a short fault. /completions: usage on the last choice."""
    limit = "ttft.p90 <= 3s during slow-line"
    scenario = scenario_for(
        llamacpp,
        load={**LOAD, "endpoint": "completions"},
        phases={"warmup": "2s", "baseline": "6s", "recovery": "6s"},
        # far over the limit, and the limit far over what a busy machine adds: client_lag may be 5 % of it
        faults=[{**SLOW_LINE, "params": {"delay_ms": 4500}}],
        objectives=["ttft.p90 <= 3s during baseline", limit, "error_rate <= 25%"],
    )
    run = chaosflow_run(scenario, tmp_path, timeout_s=60)
    assert run.exit_code == 1, run.explain()
    assert run.result.state == "fail"
    verdicts = run.states()
    assert verdicts[limit] == {"slow-line": "fail"}
    assert verdicts["ttft.p90 <= 3s during baseline"] == {"baseline": "pass"}
    assert set(verdicts["error_rate <= 25%"].values()) == {"pass"}
    assert "slow-line" in run.result.reason
    assert_faults_worked(run, ["slow-line"])
    assert_every_stream_whole(run, TOKENS, at_least=RATE_PER_S * 8)
    assert_left_alone(llamacpp)


@pytest.mark.slow
def test_a_killed_server_that_nobody_restarts_fails_the_run(tiny_model: TinyModel, tmp_path: Path) -> None:
    """litmus-go 591: the target is gone when the fault ends. Bounded, and its requests count as failed."""
    with llamacpp_server(tiny_model, tmp_path) as target:
        scenario = scenario_for(
            target,
            load=LOAD,
            phases={"warmup": "1s", "baseline": "5s", "recovery": "4s"},
            faults=[{"name": "crash", "type": "process.kill"}],
            objectives=["error_rate <= 50%"],
        )
        run = chaosflow_run(scenario, tmp_path, timeout_s=60)
        assert not target.healthy()
    assert run.exit_code == 1, run.explain()
    assert run.states()["error_rate <= 50%"]["baseline"] == "pass"
    assert run.states()["error_rate <= 50%"]["crash.recovery"] == "fail"
    assert run.segment("crash.recovery").outcomes.get("connect", 0) > 10, run.explain()
    assert run.fault("crash").confirmed
    assert not run.fault("crash").reversible
