"""The ``sim`` backend: words from a seed, in the time that the roofline gives, on a virtual GPU.

Nothing is computed. What is real is the time: a step returns when the modelled GPU would be done, on
an absolute schedule, so that the error of one sleep does not add to the next.
"""

from __future__ import annotations

import time
from typing import ClassVar

from chaosflow.engine.infer.backend import Sampled, StepCost, StepResult
from chaosflow.engine.infer.models import ModelSpec
from chaosflow.engine.infer.roofline import COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY, Demand, Roofline
from chaosflow.engine.infer.timer import PreciseTimer
from chaosflow.engine.infer.words import natural_length, word
from chaosflow.engine.schedule.blocks import BLOCK_TOKENS
from chaosflow.engine.schedule.scheduler import Batch
from chaosflow.engine.schedule.sequence import Sequence
from chaosflow.gpu.state import Telemetry, VirtualGpuState

CATCH_UP_NS = 10_000_000
"""Lateness up to this is made up for; more is a stall of this process, and is not."""


class SimBackend:
    """One model on one virtual GPU. Make it inside a running event loop."""

    name: ClassVar[str] = "sim"

    def __init__(self, state: VirtualGpuState, model: ModelSpec) -> None:
        self.state, self.model = state, model
        self.roofline = Roofline(state.spec, model)
        self.kv_blocks = self.roofline.kv_blocks(BLOCK_TOKENS)
        self.context_tokens = model.context_tokens
        self.lateness_ns = 0
        """How much later than modelled the last step ended."""
        self._timer = PreciseTimer()
        self._due_ns = 0
        self._energy_mj = float(state.telemetry().energy_mj)
        self._reported_ns = time.monotonic_ns()

    async def step(self, batch: Batch) -> StepResult:
        """Sleep as long as the batch would take at the clock of this moment; then one word each."""
        demand = Demand.of(batch)
        clock_mhz = self.state.clock_mhz(busy=True)
        cost = self.roofline.cost(demand, clock_mhz)
        now_ns = time.monotonic_ns()
        start_ns = self._due_ns if now_ns - self._due_ns <= CATCH_UP_NS else now_ns
        self._due_ns = start_ns + round(cost.total_s * 1e9)
        await self._timer.sleep_until(self._due_ns)
        self.lateness_ns = time.monotonic_ns() - self._due_ns
        self._report(demand, cost, clock_mhz)
        sampled = [(work.sequence, _sample(work.sequence)) for work in batch if work.samples]
        return StepResult(sampled, cost)

    def idle(self) -> None:
        self._due_ns = 0  # the next step starts when its work comes, not before

    def close(self) -> None:
        self._timer.close()
        self.state.close()

    def _report(self, demand: Demand, cost: StepCost, clock_mhz: int) -> None:
        gpu, seconds = self.state.spec, cost.total_s
        now_ns = time.monotonic_ns()
        on_gpu_s = seconds - cost.scheduling_s - cost.io_s
        compute_share = sum(self.roofline.flops(demand)) / (gpu.bf16_flops * COMPUTE_EFFICIENCY * seconds)
        memory_share = sum(self.roofline.bytes_moved(demand)) / (
            gpu.hbm_bytes_per_s * MEMORY_EFFICIENCY * seconds
        )
        # of the power above idle: 45 % for all of the compute, 30 % for all of the bandwidth, and a
        # quarter for running at all, which falls with the clock's square; decode comes to 30-45 % of TDP
        scale = (clock_mhz / gpu.boost_mhz) ** 2
        activity = min(1.0, 0.25 * scale * on_gpu_s / seconds + 0.45 * compute_share + 0.3 * memory_share)
        power_w = gpu.idle_w + (gpu.tdp_w - gpu.idle_w) * activity
        idle_ns = max(0.0, now_ns - self._reported_ns - seconds * 1e9)
        self._energy_mj += power_w * seconds * 1e3 + gpu.idle_w * idle_ns / 1e6
        self._reported_ns = now_ns
        self.state.report(
            Telemetry(
                utilization_percent=max(1, round(100 * on_gpu_s / seconds)),
                memory_utilization_percent=round(100 * min(1.0, memory_share)),
                memory_used_bytes=self.model.weight_bytes
                + self.kv_blocks * BLOCK_TOKENS * self.model.kv_bytes_per_token,
                power_mw=round(power_w * 1000),
                energy_mj=int(self._energy_mj),
                pcie_tx_kb_per_s=round(demand.io_bytes_out / seconds / 1000),
                pcie_rx_kb_per_s=round(demand.io_bytes_in / seconds / 1000),
            ),
            now_ns,
        )


def _sample(sequence: Sequence) -> Sampled:
    index = sequence.generated
    ends = sequence.may_end and index + 1 >= natural_length(sequence.seed)
    return word(sequence.seed, index, end=ends)
