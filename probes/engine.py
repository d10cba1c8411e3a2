"""The engine's own view of itself, from its /metrics: the included engine, vLLM, llama.cpp."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from chaosflow.core.clock import NS_PER_S, Clock
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host
from chaosflow.core.probe import Probe, Reading
from chaosflow.probes.scrape import Endpoint, Page, fetch, total

_TIMEOUT_S = 1.0
_OURS = "chaosflow_engine_"

GAUGES: dict[str, tuple[str, ...]] = {
    "engine.running_requests": (
        _OURS + "requests_running",
        "vllm:num_requests_running",
        "llamacpp:requests_processing",
    ),
    "engine.waiting_requests": (
        _OURS + "requests_waiting",
        "vllm:num_requests_waiting",
        "llamacpp:requests_deferred",
    ),
    "engine.kv_usage_ratio": (
        _OURS + "kv_usage_ratio",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "llamacpp:kv_cache_usage_ratio",
    ),
    "engine.generated_tokens": (
        _OURS + "generated_tokens_total",
        "vllm:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
    ),
    "engine.preemptions": (_OURS + "preemptions_total", "vllm:num_preemptions_total"),
    "engine.cancelled_requests": (_OURS + "requests_cancelled_total",),
    "engine.lagging_requests": (_OURS + "requests_lagging",),
    "engine.sm_clock_mhz": (_OURS + "vgpu_sm_clock_mhz",),
    "engine.power_watts": (_OURS + "vgpu_power_watts",),
}
"""Series -> the metric's names, the first one found counts."""
_PART = re.compile(r'part="(\w+)"')


class EngineProbe(Probe):
    """The engine's own view, from its /metrics: requests, queue, KV cache, tokens, steps.

    Scrapes once a second. While the engine does not answer there are no readings, and no zeros.
    """

    name: ClassVar[str] = "engine"

    @classmethod
    def check(cls, host: Host) -> Capability:
        endpoint = Endpoint.of(host.target)
        if host.target.included:
            return Capability.yes("/metrics of the included engine")
        try:
            with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
                page = thread.submit(lambda: asyncio.run(fetch(endpoint, _TIMEOUT_S))).result()
        except (OSError, TimeoutError) as e:
            why = str(e) or ("no answer within 1 s" if isinstance(e, TimeoutError) else type(e).__name__)
            return Capability.no(f"{endpoint} cannot be read ({why})", "llama.cpp needs --metrics")
        if not list(_gauges(page, 0)):
            return Capability.no(f"{endpoint} has none of the metrics known here", "see docs/probes.md")
        return Capability.yes(str(endpoint))

    async def readings(self, clock: Clock) -> AsyncIterator[Reading]:
        endpoint = Endpoint.of(self.host.target)
        due_ns, before, before_ns = clock.now_ns(), Page(), 0
        while True:
            try:
                page = await fetch(endpoint, _TIMEOUT_S)
            except (OSError, TimeoutError):
                page = {}
            now_ns = clock.now_ns()
            for reading in _gauges(page, now_ns):
                yield reading
            if page and before:
                for reading in _rates(before, page, before_ns, now_ns):
                    yield reading
            before, before_ns = page, now_ns
            due_ns = max(due_ns + NS_PER_S, now_ns)
            await clock.sleep_until(due_ns)


def _gauges(page: Page, at_ns: int) -> Iterator[Reading]:
    for series, metrics in GAUGES.items():
        value = next((v for m in metrics if (v := total(page, m)) is not None), None)
        if value is not None:
            yield Reading(at_ns, series, value)


def _rates(before: Page, after: Page, before_ns: int, after_ns: int) -> Iterator[Reading]:
    """Tokens per second, and the mean step by part, between two pages; nothing across a restart."""
    seconds = (after_ns - before_ns) / 1e9
    for metric in GAUGES["engine.generated_tokens"]:
        old, new = total(before, metric), total(after, metric)
        if old is not None and new is not None and new >= old and seconds > 0:
            yield Reading(after_ns, "engine.generated_tokens_per_s", (new - old) / seconds)
    steps = (total(after, _OURS + "steps_total") or 0) - (total(before, _OURS + "steps_total") or 0)
    if steps <= 0:
        return
    for (name, labels), value in after.items():
        if name == _OURS + "step_seconds_total" and (part := _PART.search(labels)):
            spent = value - before.get((name, labels), 0.0)
            yield Reading(after_ns, f"engine.step_{part[1]}_ms", 1000 * spent / steps)
