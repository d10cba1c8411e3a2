"""Named GPUs: the figures that the roofline and the virtual GPU are made of.

Sources, as far as they were read from public pages: clocks, bandwidth, dense FLOP/s, TDP and PCIe
generation are vendors' data sheets; H200 clocks (1980 busy, 345 idle, memory 3201) were read on one.
Fields named in ``unverified`` are assumptions or hearsay; a test keeps the list honest about its names.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.core.errors import UsageError
from chaosflow.core.units import did_you_mean


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU. Rates are per second at the boost clock; powers in W."""

    key: str
    name: str
    """As NVML would report it; the virtual GPU puts "Virtual " in front."""
    sms: int
    """Streaming multiprocessors (AMD: compute units)."""
    base_mhz: int | None
    boost_mhz: int
    idle_mhz: int
    min_mhz: int
    """Lowest clock that can be locked; locks below it are clamped to it."""
    clock_step_mhz: int
    memory_mhz: int
    hbm_bytes_per_s: float
    bf16_flops: float
    """Dense, at the boost clock."""
    fp8_flops: float | None
    tdp_w: int
    min_limit_w: int
    idle_w: int
    pcie_gen: int
    memory_bytes: int
    l2_bytes_per_clock_sm: int = 32
    """What one SM can take from L2 per clock: below hbm/(sms x this) MHz the clock bounds memory too.
    32 is near what public L2 microbenchmarks of Hopper and Ampere reach (nominal port width: 64)."""
    unverified: frozenset[str] = frozenset()

    def clamp_mhz(self, mhz: int) -> int:
        """The clock a lock at ``mhz`` really gives: within the range, on the grid of supported steps."""
        steps = round((min(mhz, self.boost_mhz) - self.min_mhz) / self.clock_step_mhz)
        return min(self.boost_mhz, max(self.min_mhz, self.min_mhz + steps * self.clock_step_mhz))

    def memory_rate(self, mhz: float) -> float:
        """Bytes per second that can reach the SMs at this clock, before efficiency."""
        return min(self.hbm_bytes_per_s, self.l2_bytes_per_clock_sm * self.sms * mhz * 1e6)

    def compute_rate(self, mhz: float) -> float:
        """Dense bf16 FLOP/s at this clock, before efficiency."""
        return self.bf16_flops * mhz / self.boost_mhz


_ASSUMED = frozenset({"idle_w", "min_limit_w", "min_mhz", "clock_step_mhz", "l2_bytes_per_clock_sm"})

GPUS: dict[str, GpuSpec] = {
    spec.key: spec
    for spec in (
        GpuSpec(
            "h100", "NVIDIA H100 80GB HBM3", 132, None, 1980, 345, 210, 15, 2619,
            3.35e12, 989e12, 1979e12, 700, 200, 70, 5, 80 << 30,
            unverified=_ASSUMED | {"base_mhz", "idle_mhz", "memory_mhz"},
        ),
        GpuSpec(
            "h200", "NVIDIA H200", 132, None, 1980, 345, 210, 15, 3201,
            4.8e12, 989e12, 1979e12, 700, 200, 75, 5, 139 << 30,
            unverified=_ASSUMED | {"base_mhz"},
        ),
        GpuSpec(
            "a100-80", "NVIDIA A100-SXM4-80GB", 108, 1275, 1410, 210, 210, 15, 1593,
            2.04e12, 312e12, None, 400, 100, 55, 4, 80 << 30,
            unverified=_ASSUMED | {"idle_mhz", "memory_mhz"},
        ),
        GpuSpec(
            "mi300x", "AMD Instinct MI300X", 304, None, 2100, 132, 132, 1, 1300,
            5.3e12, 1307e12, 2615e12, 750, 200, 140, 5, 192 << 30,
            unverified=_ASSUMED | {"base_mhz", "boost_mhz", "idle_mhz", "memory_mhz"},
        ),
        GpuSpec(
            "l4", "NVIDIA L4", 58, 795, 2040, 210, 210, 15, 6251,
            0.30e12, 121e12, 242e12, 72, 40, 13, 4, 23034 << 20,
            unverified=_ASSUMED | {"boost_mhz", "idle_mhz", "memory_mhz", "memory_bytes"},
        ),
    )
}  # fmt: skip


def gpu_named(key: str) -> GpuSpec:
    """The GPU of that name; UsageError with a suggestion when there is none."""
    if key not in GPUS:
        hint = did_you_mean(key, GPUS) or f"known: {', '.join(GPUS)}"
        raise UsageError(f"gpu {key!r}", "no such GPU", hint)
    return GPUS[key]
