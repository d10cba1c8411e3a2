"""What a step costs on a named GPU: each part is bound by compute or by memory, plus its launches.

    part = max(FLOPs / compute rate, bytes / memory rate) + kernels x launch cost

Compute rate and launch cost follow the SM clock; the memory rate is the lesser of HBM and what the
SMs can take from L2 at this clock (GpuSpec.memory_rate). So a lower clock first costs nothing but
launches, then everything: the knee is at hbm / (bytes per clock and SM x SMs).

The constants were fitted by hand to published decode and prefill times (tests/unit/engine/
test_engine_roofline.py lists the rows and the factor within which each is met).
"""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.engine.infer.backend import StepCost
from chaosflow.engine.infer.models import ModelSpec
from chaosflow.engine.schedule.scheduler import Batch
from chaosflow.gpu.specs import GpuSpec

MEMORY_EFFICIENCY = 0.87
COMPUTE_EFFICIENCY = 0.68
LAUNCH_CYCLES = 7_900
"""SM clocks from one kernel's end to the next one's start: 4 µs at 1980 MHz."""
ATTENTION_KERNELS, PROJECTION_KERNELS = 5, 3
"""Per layer: norm, QKV, rotary, attention, output; norm, gate-up, down."""
IO_BASE_S, IO_PER_SEQUENCE_S = 150e-6, 20e-6
"""Block tables to the GPU, sampled tokens back, over PCIe, and detokenising."""
SCHEDULING_BASE_S, SCHEDULING_PER_SEQUENCE_S = 650e-6, 40e-6
"""The host's own work between two steps (vLLM 0.6 on one core; not overlapped)."""
PCIE_BYTES_PER_S_AND_GEN = {3: 12e9, 4: 24e9, 5: 48e9}


@dataclass(frozen=True, slots=True)
class Demand:
    """What a batch asks of the hardware."""

    tokens: int
    samples: int
    sequences: int
    kv_read_tokens: int
    """Cached tokens read by attention, over all sequences."""
    attention_pairs: int
    """Query-key pairs."""

    @classmethod
    def of(cls, batch: Batch) -> Demand:
        tokens = samples = kv_read = pairs = 0
        for work in batch:
            n = work.tokens
            tokens += n
            samples += work.samples
            kv_read += work.context + n
            pairs += n * work.context + n * (n + 1) // 2
        return cls(tokens, samples, len(batch), kv_read, pairs)

    @property
    def io_bytes_in(self) -> int:
        return 8 * self.tokens + self.kv_read_tokens // 4  # token ids and positions; block tables

    @property
    def io_bytes_out(self) -> int:
        return 8 * self.samples


class Roofline:
    """Step costs of one model on one GPU. Pure: the same demand and clock give the same cost."""

    def __init__(self, gpu: GpuSpec, model: ModelSpec) -> None:
        self.gpu, self.model = gpu, model
        self._attention_bytes = 2 * model.attention_weights
        self._projection_bytes = 2 * (model.projection_weights - model.head_weights)
        self._head_bytes = 2 * model.head_weights
        self._pair_flops = 4 * model.layers * model.heads * model.head_dim
        self._pcie = PCIE_BYTES_PER_S_AND_GEN[gpu.pcie_gen]

    def flops(self, demand: Demand) -> tuple[float, float]:
        """Of attention (projections and scores) and of the MLPs with the head (sampled tokens only)."""
        attention = demand.tokens * self._attention_bytes + demand.attention_pairs * self._pair_flops
        projection = demand.tokens * self._projection_bytes + demand.samples * self._head_bytes
        return float(attention), float(projection)  # 2 FLOPs per weight of 2 bytes: as many FLOPs as bytes

    def bytes_moved(self, demand: Demand) -> tuple[float, float]:
        """Read by attention (weights and cache) and by the MLPs with the head."""
        attention = self._attention_bytes + demand.kv_read_tokens * self.model.kv_bytes_per_token
        projection = self._projection_bytes + (self._head_bytes if demand.samples else 0)
        return float(attention), float(projection)

    def cost(self, demand: Demand, clock_mhz: float) -> StepCost:
        """One step's five parts at an SM clock."""
        memory = self.gpu.memory_rate(clock_mhz) * MEMORY_EFFICIENCY
        compute = self.gpu.compute_rate(clock_mhz) * COMPUTE_EFFICIENCY
        launch = LAUNCH_CYCLES / (clock_mhz * 1e6)
        (attention_flops, projection_flops) = self.flops(demand)
        (attention_bytes, projection_bytes) = self.bytes_moved(demand)
        layers = self.model.layers
        return StepCost(
            embedding_s=launch + 4 * demand.tokens * self.model.hidden / memory,
            attention_s=layers * ATTENTION_KERNELS * launch
            + max(attention_flops / compute, attention_bytes / memory),
            projection_s=(layers * PROJECTION_KERNELS + 2) * launch
            + max(projection_flops / compute, projection_bytes / memory),
            io_s=IO_BASE_S
            + IO_PER_SEQUENCE_S * demand.sequences
            + (demand.io_bytes_in + demand.io_bytes_out) / self._pcie,
            scheduling_s=SCHEDULING_BASE_S + SCHEDULING_PER_SEQUENCE_S * demand.sequences,
        )

    def kv_blocks(self, block_tokens: int) -> int:
        """Cache blocks that fit beside the weights, 90 % of memory used; 0 when the weights do not fit."""
        room = 0.9 * self.gpu.memory_bytes - self.model.weight_bytes
        return max(0, int(room // (block_tokens * self.model.kv_bytes_per_token)))
