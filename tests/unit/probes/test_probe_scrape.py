"""Prometheus pages of the engines known here."""

from __future__ import annotations

from chaosflow.probes.engine import _gauges, _rates
from chaosflow.probes.scrape import parse, total

OURS = """
# HELP chaosflow_engine_requests_running Requests in the batch.
# TYPE chaosflow_engine_requests_running gauge
chaosflow_engine_requests_running 3
chaosflow_engine_generated_tokens_total {tokens}
chaosflow_engine_steps_total {steps}
chaosflow_engine_step_seconds_total{{part="attention"}} {attention}
"""
VLLM = """
vllm:num_requests_running{engine="0",model_name="a b"} 2.0
vllm:num_requests_running{engine="1",model_name="a b"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:generation_tokens_total{engine="0"} 1e3
nonsense line
"""
LLAMA = "llamacpp:requests_processing 4\nllamacpp:tokens_predicted_total 17\nllamacpp:bad NaNx\n"


def series(text: str) -> dict[str, float]:
    return {reading.series: reading.value for reading in _gauges(parse(text), 1)}


def test_vllm_and_llama_cpp_names_are_mapped() -> None:
    assert series(VLLM) == {
        "engine.running_requests": 3,
        "engine.kv_usage_ratio": 0.25,
        "engine.generated_tokens": 1000,
    }
    assert series(LLAMA) == {"engine.running_requests": 4, "engine.generated_tokens": 17}


def test_absent_is_absent_and_not_zero() -> None:
    assert total(parse(""), "x") is None
    assert series("") == {}


def test_rates_between_two_pages_and_none_across_a_restart() -> None:
    old = parse(OURS.format(tokens=100, steps=10, attention=0.5))
    new = parse(OURS.format(tokens=300, steps=20, attention=0.52))
    rates = {r.series: r.value for r in _rates(old, new, 0, 2_000_000_000)}
    assert rates["engine.generated_tokens_per_s"] == 100
    assert abs(rates["engine.step_attention_ms"] - 2.0) < 1e-6
    assert list(_rates(new, old, 0, 1_000_000_000)) == []
