"""``/metrics`` in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator

from chaosflow.engine.core import Engine
from chaosflow.gpu.state import VirtualGpuState

PREFIX = "chaosflow_engine_"


def render(engine: Engine, gpu: VirtualGpuState | None) -> bytes:
    """All series of an engine, and of its virtual GPU if it has one."""
    return ("\n".join(_lines(engine, gpu)) + "\n").encode()


def _lines(engine: Engine, gpu: VirtualGpuState | None) -> Iterator[str]:
    scheduler, stats = engine.scheduler, engine.stats
    budget = scheduler.budget
    lagging = sum(s.sink.full for s in scheduler.running)
    yield from _one("requests_running", "gauge", "Requests in the batch.", len(scheduler.running))
    yield from _one("requests_waiting", "gauge", "Requests in line.", len(scheduler.waiting))
    yield from _one("requests_lagging", "gauge", "Running requests held back by their client.", lagging)
    yield from _one(
        "kv_usage_ratio", "gauge", "Share of KV blocks in use.", budget.used / max(1, budget.total)
    )
    yield from _one("kv_blocks_used", "gauge", "KV blocks in use.", budget.used)
    yield from _one("prompt_tokens_total", "counter", "Prompt tokens accepted.", stats.prompt_tokens)
    yield from _one("generated_tokens_total", "counter", "Tokens generated.", stats.generated_tokens)
    yield from _one("steps_total", "counter", "Steps run.", stats.steps)
    yield from _many("step_seconds_total", "Step time by part.", "part", stats.step_part_s)
    yield from _many("requests_finished_total", "Requests by finish reason.", "reason", stats.finished)
    yield from _one("requests_cancelled_total", "counter", "Clients that went away.", stats.cancelled)
    yield from _one("requests_rejected_total", "counter", "Refused: line too long.", stats.rejected)
    yield from _one("preemptions_total", "counter", "Sequences that lost their KV.", scheduler.preemptions)
    if gpu is not None:
        telemetry, clock = gpu.telemetry(), gpu.clock_mhz(busy=gpu.busy)
        yield from _one("vgpu_sm_clock_mhz", "gauge", "SM clock of the virtual GPU.", clock)
        yield from _one("vgpu_power_watts", "gauge", "Modelled power.", telemetry.power_mw / 1000)
        yield from _one("vgpu_utilization_percent", "gauge", "Modelled.", telemetry.utilization_percent)


def _one(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {text}"
    yield f"# TYPE {PREFIX}{name} {kind}"
    yield f"{PREFIX}{name} {value:.9g}" if isinstance(value, float) else f"{PREFIX}{name} {value}"


def _many(name: str, text: str, label: str, values: dict[str, float] | dict[str, int]) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {text}"
    yield f"# TYPE {PREFIX}{name} counter"
    for key, value in values.items():
        yield f'{PREFIX}{name}{{{label}="{key}"}} {value:.9g}'
