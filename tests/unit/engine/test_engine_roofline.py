"""The roofline against published figures, and its dependence on the clock."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaosflow.engine.infer.models import MODELS, model_named
from chaosflow.engine.infer.roofline import Demand, Roofline
from chaosflow.gpu.specs import GPUS


def decode(batch: int, context: int) -> Demand:
    return Demand(batch, batch, batch, batch * (context + 1), batch * (context + 1))


def prefill(tokens: int) -> Demand:
    return Demand(tokens, 1, 1, tokens, tokens * (tokens + 1) // 2)


def step_ms(gpu: str, model: str, demand: Demand, clock: int | None = None) -> float:
    spec = GPUS[gpu]
    return 1000 * Roofline(spec, MODELS[model]).cost(demand, clock or spec.boost_mhz).total_s


@pytest.mark.parametrize(
    ("gpu", "model", "batch", "context", "published_ms", "factor"),
    [
        ("h200", "llama-3.1-8b", 8, 96, 6.5, 1.15),  # vLLM performance-benchmark 9515
        ("a100-80", "llama-2-7b", 60, 1152, 31.1, 1.2),  # TensorRT-LLM 0.6.1 performance.md
        ("l4", "mistral-7b", 1, 100, 55.9, 1.1),  # bereketlemma, FP16
        ("a100-80", "llama-2-7b", 1, 100, 13.5, 1.5),  # llama.cpp F16 (less efficient than a server)
        ("h100", "llama-2-7b", 1, 100, 12.0, 2.0),  # llama.cpp on the PCIe card (2.0 TB/s, not 3.35)
    ],
)
def test_decode_step_is_near_the_published_one(
    gpu: str, model: str, batch: int, context: int, published_ms: float, factor: float
) -> None:
    modelled = step_ms(gpu, model, decode(batch, context))
    assert published_ms / factor <= modelled <= published_ms * factor, f"{modelled:.1f} ms"


@pytest.mark.parametrize(
    ("tokens", "published_ms", "factor"), [(128, 16, 1.6), (2048, 133, 1.1)]
)  # 7B FP16 on A100, TensorRT-LLM 0.5 performance.md
def test_prefill_is_near_the_published_one(tokens: int, published_ms: float, factor: float) -> None:
    modelled = step_ms("a100-80", "llama-2-7b", prefill(tokens))
    assert published_ms / factor <= modelled <= published_ms * factor, f"{modelled:.1f} ms"


def test_a_single_h200_stream_takes_between_floor_and_twice_the_floor() -> None:
    floor_ms = 1000 * 15.0e9 / 4.8e12
    assert floor_ms < step_ms("h200", "llama-3.1-8b", decode(1, 256)) < 2 * floor_ms


def test_lower_clocks_never_help_and_slow_decode_sublinearly() -> None:
    times = [step_ms("a100-80", "llama-3.1-8b", decode(8, 256), mhz) for mhz in range(1410, 200, -15)]
    assert all(slower >= faster for faster, slower in pairwise(times))
    ratio = step_ms("a100-80", "llama-3.1-8b", decode(8, 256), 1005) / times[0]
    assert 1.0 < ratio < 1410 / 1005  # arXiv 2605.11999: 1410 to 1005 MHz slows sub-linearly


def test_300_mhz_starves_the_memory_too() -> None:
    ratio = step_ms("h200", "llama-3.1-8b", decode(8, 256), 300) / step_ms(
        "h200", "llama-3.1-8b", decode(8, 256)
    )
    assert 2.5 < ratio < 1980 / 300


def test_prefill_scales_with_the_clock() -> None:
    fast, slow = (step_ms("h200", "llama-3.1-8b", prefill(2048), mhz) for mhz in (1980, 990))
    assert slow / fast == pytest.approx(2, rel=0.1)


def test_every_part_costs_something_and_they_add_up() -> None:
    cost = Roofline(GPUS["h200"], MODELS["llama-3.1-8b"]).cost(decode(8, 256), 1980)
    parts = (cost.embedding_s, cost.attention_s, cost.projection_s, cost.io_s, cost.scheduling_s)
    assert all(part > 0 for part in parts)
    assert cost.total_s == pytest.approx(sum(parts))


@pytest.mark.parametrize(
    ("model", "billions"),
    [("llama-3.1-8b", 8.03), ("llama-3.3-70b", 70.6), ("llama-2-7b", 6.74), ("qwen2-7b", 7.6)],
)
def test_weights_agree_with_the_models_published_sizes(model: str, billions: float) -> None:
    assert model_named(model).weight_bytes / 2e9 == pytest.approx(billions, rel=0.01)
    assert MODELS["llama-3.1-8b"].kv_bytes_per_token == 131072
