"""Objectives beyond latency, against real streams: bursts, stalls, the health check's truth, budgets."""

from __future__ import annotations

from typing import Any

import pytest
from conftest_run import Place, scenario

pytestmark = pytest.mark.slow

OBJECTIVES = [
    "burstiness <= 50% during baseline",
    "burstiness <= 50% during clumps",
    "itl.p90 <= 1s during baseline",
    "health_truth <= 1s during silence",
    "time_to_unready <= 4s during freeze",
    "stalls.400ms <= 20% during baseline",
    "error_rate <= 50%",
]


def test_what_a_stream_really_does_is_judged(place: Place) -> None:
    """Fake streaming, a target that says ready while nothing moves, and one that says so when it freezes."""
    run = place.run(
        scenario(
            name="objectives",
            faults=[
                {"name": "clumps", "type": "stream.coalesce", "duration": "3s", "params": {"events": 8}},
                {
                    "name": "silence",
                    "type": "proxy.timeout",
                    "after": "clumps",
                    "duration": "4s",
                },
                {"name": "freeze", "type": "process.pause", "after": "silence", "duration": "5s"},
            ],
            load={
                "arrival": {"kind": "constant", "rate_per_s": 12},
                "prompt_tokens": 16,
                "output_tokens": 24,
            },
            probes=["health"],
            sla={"objectives": OBJECTIVES, "window": "5s", "on_bad_baseline": "continue"},
            phases={"warmup": "1s", "baseline": "3s", "recovery": "1s"},
        )
    )
    result = run.result
    found: dict[str, Any] = {o["text"]: o for o in result["objectives"]}
    assert run.process.returncode == 1, run.text
    steady, clumps, itl, truth, unready, stalls, errors = (found[text] for text in OBJECTIVES)
    assert steady["state"] == itl["state"] == stalls["state"] == "pass", run.text
    assert clumps["state"] == "fail", clumps
    assert clumps["segments"][0]["observed"] > 0.5
    assert truth["state"] == "fail", truth
    assert "said ready while no token moved" in truth["sentence"]
    assert unready["state"] == "pass", unready
    assert "health.ready_state" in result["probes"]
    assert clumps["budget"]["spent"] > 1
    assert errors["sliding"]["window_s"] == 5.0
    assert truth["budget"] is None


def test_plan_says_what_is_missing_and_a_missing_probe_is_named(place: Place) -> None:
    plain = scenario(name="plan", sla={"objectives": ["ttft.p99 <= 1s", "recovery <= 1s"]}, faults=[
        {"name": "freeze", "type": "process.pause", "duration": "1s"}
    ])  # fmt: skip
    shown = place.chaosflow("plan", str(place.write(plain)))
    assert shown.returncode == 0, shown.stderr
    assert "299" in place.chaosflow("plan", str(place.write(plain)), "--json").stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert "freeze" in shown.stdout
    assert "closed loop" not in shown.stdout
    closed = scenario(name="closed", load={"arrival": {"kind": "closed", "users": 2}})
    told = " ".join(place.chaosflow("plan", str(place.write(closed))).stdout.split())
    assert "unknown: how many samples a closed loop" in told
    refused = place.chaosflow("plan", str(place.write(plain)), "--broken", "0.5")
    assert refused.returncode == 2
    blind = scenario(name="blind", sla={"objectives": ["health_truth <= 5s"]})
    found = place.chaosflow("validate", str(place.write(blind)))
    assert found.returncode == 2
    assert "needs the probe 'health'" in found.stderr
    assert "probes: [health]" in found.stderr
