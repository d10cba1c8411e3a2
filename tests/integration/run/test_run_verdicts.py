"""Whole runs against the included engine, and what each ends with (chaostoolkit-lib 45: one code per outcome)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest_run import CHAOSFLOW, SYSTEM_PYTHON, Place, scenario

pytestmark = pytest.mark.slow

JITTER = {
    "name": "jitter",
    "type": "proxy.latency",
    "duration": "3s",
    "params": {"delay_ms": 30, "jitter_ms": 10},
}
THROTTLE = {
    "name": "throttle",
    "type": "cuda_device",
    "params": {"device_id": 0, "target_freq_mhz": 300, "duration_sec": 4},
}
FREEZE = {"name": "freeze", "type": "process.pause", "duration": "900ms"}


def test_a_sequence_of_faults_passes_and_tells_what_was_seen(place: Place) -> None:
    """The main job in small: jitter by proxy, GPU clock throttle, pause; each verified, each undone."""
    run = place.run(
        scenario(
            faults=[JITTER, {**THROTTLE, "after": "jitter"}, {**FREEZE, "after": "throttle"}],
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            probes=["engine", "host"],
            sla={"objectives": ["e2e.p80 <= 8s", "error_rate <= 20%"], "window": "5s"},
            phases={"warmup": "1s", "baseline": "4s", "recovery": "3s"},
        )
    )
    assert run.process.returncode == 0, run.text
    result = run.result
    assert result["state"] == "pass"
    for fault in result["faults"]:
        assert fault["confirmed"], fault
        assert fault["reverted"], fault
        assert fault["evidence"]
        assert fault["revert_evidence"]
        assert abs(fault["inject_begin_s"] - fault["planned_inject_s"]) < 0.5
    baseline = next(s for s in result["segments"] if s["name"] == "baseline")
    assert baseline["failed"] == 0
    assert baseline["scheduled"] == pytest.approx(100, abs=2)
    assert [s["name"] for s in result["segments"] if s["kind"] == "fault"] == ["jitter", "throttle", "freeze"]
    assert any("virtual" in text.lower() or "simulated" in text.lower() for text in result["simulated"])
    throttled = next(s for s in result["segments"] if s["name"] == "throttle")
    assert throttled["gap"]["p50_ms"] > 1.5 * baseline["gap"]["p50_ms"], "300 MHz really slows the tokens"
    assert (run.folder / "report.html").stat().st_size < 2_000_000
    assert (run.folder / "junit.xml").exists()
    assert result["probes"], "probes left no readings"


def test_a_broken_objective_exits_1_and_names_the_segment(place: Place) -> None:
    run = place.run(
        scenario(
            faults=[{**JITTER, "params": {"delay_ms": 1500}}],
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            sla={"objectives": ["ttft.p90 <= 1s"], "window": "5s"},
        )
    )
    assert run.process.returncode == 1, run.text
    segments = {s["segment"]: s["state"] for s in run.result["objectives"][0]["segments"]}
    assert segments["jitter"] == "fail"
    assert segments["baseline"] != "fail"


def test_too_little_load_exits_3_and_says_how_many_more(place: Place) -> None:
    run = place.run(scenario(sla={"objectives": ["e2e.p99 <= 5s"], "window": "5s"}))
    assert run.process.returncode == 3, run.text
    assert run.result["objectives"][0]["segments"][0]["needs_more"] > 200
    assert "more" in run.result["reason"]


def test_a_bad_baseline_stops_before_the_first_fault_and_is_invalid(place: Place) -> None:
    run = place.run(
        scenario(
            faults=[JITTER],
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            sla={"objectives": ["ttft.p95 <= 1us"], "window": "5s"},
        )
    )
    assert run.process.returncode == 4, run.text
    assert "steady state" in run.result["reason"]
    assert run.fault("jitter")["inject_begin_s"] is None


def test_the_abort_rule_ends_the_run_as_fail(place: Place) -> None:
    kill = {"name": "crash", "type": "process.kill"}
    run = place.run(
        scenario(
            target={"engine": {"backend": "sim", "restart": {"policy": "never"}}},
            faults=[kill],
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            phases={"warmup": "500ms", "baseline": "3s", "recovery": "30s"},
            abort=["error_rate > 50% for 2s"],
        )
    )
    assert run.process.returncode == 1, run.text
    assert run.result["aborted"]
    assert run.result["wall_s"] < 30, "it did not wait for the timeline's end"


def test_a_killed_engine_is_restarted_and_its_recovery_measured(place: Place) -> None:
    run = place.run(
        scenario(
            faults=[{"name": "crash", "type": "process.kill"}],
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            phases={"warmup": "500ms", "baseline": "22s", "recovery": "12s"},
            sla={"objectives": ["recovery <= 11s"], "window": "5s"},
        )
    )
    assert run.process.returncode == 0, run.text
    recovery = run.fault("crash")["recovery"]
    assert recovery["measured"]
    assert 0.2 < recovery["seconds"] < 11
    assert recovery["requests_lost"] > 0
    assert "restart 1" in run.text


def test_two_runs_at_once_do_not_meet(place: Place) -> None:
    """Own namespaces, own cgroups, own journals."""
    one = place.start(scenario(name="one", faults=[FREEZE]))
    two = place.start(scenario(name="two", faults=[THROTTLE]))
    assert one.wait() in (0, 3), one.text
    assert two.wait() in (0, 3), two.text
    assert "undid what a killed run left" not in one.text + two.text, "neither took the other for dead"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: drops to another user")
@pytest.mark.skipif(not SYSTEM_PYTHON, reason="no python3 of this version that another user may run")
def test_an_ordinary_user_can_run_too(place: Place) -> None:
    """No namespace, no cgroup: the same verdicts on the host's loopback."""
    place.top.chmod(0o777)
    path = place.write(
        scenario(
            faults=[JITTER, {**THROTTLE, "after": "jitter.revert"}, {**FREEZE, "after": "throttle.revert"}]
        )
    )
    done = subprocess.run(
        [SYSTEM_PYTHON, *CHAOSFLOW[1:], "run", str(path), "--plain", "--runs-dir", str(place.top / "runs")],
        env={**place.env, "HOME": str(place.top), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd=place.top, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "reverted and verified: freeze" in done.stdout
