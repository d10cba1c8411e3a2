"""The resilience suite: does streaming hold when things go wrong?"""

import json
import urllib.request

import pytest

import engine

LOAD = {"rate_per_s": 30, "prompt_tokens": 16, "output_tokens": 8}


def ask(target, question):
    """Tokens of one streamed answer, by the product's own client."""
    body = json.dumps(engine.prompt_for(question) | {"model": target.model}).encode()
    request = urllib.request.Request(
        f"{target.url}/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return sum(b'"content"' in line for line in answer)


@pytest.mark.chaos("scenarios/jitter.yaml", set={"load.arrival.rate_per_s": 30})
def test_scenario(chaos_run):
    assert chaos_run.fault("jitter").reverted
    assert chaos_run.segment("baseline").failed == 0


@pytest.mark.slo("ttft.p90 <= 1s", "error_rate <= 10%", **LOAD)
def test_timeline_in_the_body(fault, slo_checker):
    slo_checker.hold("1500ms")
    with fault("proxy.latency", delay_ms=40, name="slow-network"):
        slo_checker.hold("1500ms")
    slo_checker.hold("1500ms")


def test_check_within_a_fault(fault, slo_checker):
    with fault("gpu.clock", target_freq_mhz=300):
        slo_checker.check("ttft.p90 <= 2s", duration="2s", **LOAD)


def test_own_client_through_a_slow_service(chaos_target, fault):
    with fault("proxy.latency", delay_ms=200) as slow:
        assert ask(chaos_target, "hello") > 0
        assert "installed" in slow.evidence
    assert ask(chaos_target, "still there?") > 0
