"""The options of netem, tbf and htb as the kernel reads them (<linux/pkt_sched.h>, net/sched/sch_netem.c)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, pstdev

from chaosflow.linux.netlink import attr, attr_map, nest, u32

_MAX = 0xFFFFFFFF
_DIST_SCALE = 8192  # NETEM_DIST_SCALE: a table holds standard deviations times this
_NEUTRAL_RATE = 10_000_000_001
"""Bytes per second: so fast that nothing waits, and odd enough to be known again."""
ORDER_RATE = 10_000_000_003
"""A rate keeps the order of packets whatever their delays; this one is too fast to be felt."""


@dataclass(frozen=True, slots=True)
class Netem:
    """What one netem does. Shares are 0 to 1; times in ms; ``rate`` in bytes per second."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: str = "uniform"
    delay_correlation: float = 0.0
    loss: float = 0.0
    loss_correlation: float = 0.0
    gemodel: tuple[float, float, float, float] | None = None
    """p (good to bad), r (bad to good), 1-h (loss in bad), 1-k (loss in good)."""
    state: tuple[float, float, float, float, float] | None = None
    """p13, p31, p32, p23, p14 of the four-state model."""
    ecn: bool = False
    duplicate: float = 0.0
    duplicate_correlation: float = 0.0
    corrupt: float = 0.0
    corrupt_correlation: float = 0.0
    reorder: float = 0.0
    reorder_correlation: float = 0.0
    gap: int = 0
    rate: int = 0
    packet_overhead: int = 0
    cell_size: int = 0
    cell_overhead: int = 0
    slot: tuple[int, int, int, int] | None = None
    """Least and greatest gap between slots in ns; packets and bytes per slot, 0 = no bound."""
    limit: int = 1000


def share(value: float) -> int:
    return round(min(1.0, max(0.0, value)) * _MAX)


def netem_options(spec: Netem, *, table_size: int = 4096) -> bytes:
    """The body of TCA_OPTIONS; everything that is not asked for is switched off, also on a change."""
    gap = spec.gap or (1 if spec.reorder else 0)
    head = struct.pack("=IIIIII", 0, spec.limit, share(spec.loss), gap, share(spec.duplicate), 0)
    correlations = (spec.delay_correlation, spec.loss_correlation, spec.duplicate_correlation)
    slot = spec.slot or (0, 0, 0, 0)
    out = [
        head,
        attr(1, struct.pack("=III", *(share(c) for c in correlations))),
        attr(3, struct.pack("=II", share(spec.reorder), share(spec.reorder_correlation))),
        attr(4, struct.pack("=II", share(spec.corrupt), share(spec.corrupt_correlation))),
        attr(6, struct.pack("=IiIi", min(spec.rate, _MAX), spec.packet_overhead, spec.cell_size,
                            spec.cell_overhead)),
        u32(7, int(spec.ecn)),
        attr(10, struct.pack("=q", round(spec.delay_ms * 1e6))),
        attr(11, struct.pack("=q", round(spec.jitter_ms * 1e6))),
        attr(12, struct.pack("=qqiiqq", slot[0], slot[1], slot[2], slot[3], 0, 0)),
    ]  # fmt: skip
    if spec.rate >= _MAX:
        out.append(attr(8, struct.pack("=Q", spec.rate)))
    if spec.gemodel:
        p, r, in_bad, in_good = (share(v) for v in spec.gemodel)
        out.append(nest(5, attr(2, struct.pack("=IIII", p, r, _MAX - in_bad, in_good))))
    elif spec.state:
        p13, p31, p32, p23, p14 = (share(v) for v in spec.state)
        out.append(nest(5, attr(1, struct.pack("=IIIII", p13, p31, p32, p14, p23))))
    if spec.jitter_ms and spec.distribution != "uniform":
        out.append(attr(2, _table(spec.distribution, table_size)))
    return b"".join(out)


def neutral_netem(limit: int) -> Netem:
    """Lets everything pass, behind what is still held: removing a delay thus does not reorder."""
    return Netem(rate=_NEUTRAL_RATE, limit=limit)


@dataclass(frozen=True, slots=True)
class NetemSeen:
    """What the kernel says a netem does, as far as we compare it."""

    delay_ns: int
    jitter_ns: int
    limit: int
    rate: int

    @property
    def neutral(self) -> bool:
        return self.rate == _NEUTRAL_RATE


def read_netem(options: bytes) -> NetemSeen:
    latency, limit, _, _, _, jitter = struct.unpack_from("=IIIIII", options)
    found = attr_map(options[24:])
    delay_ns = struct.unpack("=q", found[10])[0] if 10 in found else latency * 64
    jitter_ns = struct.unpack("=q", found[11])[0] if 11 in found else jitter * 64
    rate = struct.unpack_from("=I", found[6])[0] if 6 in found else 0
    if 8 in found:
        rate = struct.unpack("=Q", found[8])[0]
    return NetemSeen(delay_ns, jitter_ns, limit, rate)


def tbf_options(rate: int, burst_bytes: int, limit_bytes: int) -> bytes:
    """A token bucket of ``rate`` bytes per second that holds at most ``limit_bytes`` waiting."""
    none = bytes(12)
    out = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, min(rate, _MAX)) + none
    out = attr(1, out + struct.pack("=III", limit_bytes, 0, 0)) + u32(6, burst_bytes)
    return out + (attr(4, struct.pack("=Q", rate)) if rate >= _MAX else b"")


def neutral_tbf() -> bytes:
    return tbf_options(_NEUTRAL_RATE, 1 << 20, 1 << 28)


def tbf_rate(options: bytes) -> int:
    """Bytes per second."""
    found = attr_map(options)
    if 4 in found:
        return int(struct.unpack("=Q", found[4])[0])
    return int(struct.unpack_from("=BBHhHI", found[1])[5])


def tbf_is_neutral(options: bytes) -> bool:
    return tbf_rate(options) == _NEUTRAL_RATE


def htb_options() -> bytes:
    return attr(2, struct.pack("=IIIII", 3, 10, 0, 0, 0))


def htb_class_options() -> bytes:
    """A class that never waits."""
    rate = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 4_000_000_000)
    ticks = 1_000_000  # of 64 ns
    return attr(1, rate + rate + struct.pack("=IIIII", ticks, ticks, 200_000, 0, 0))


@cache
def _table(distribution: str, size: int) -> bytes:
    """An inverse distribution function of mean 0 and standard deviation 1, in netem's 16 bits."""
    values = _quantiles(distribution, size)
    for _ in range(8):  # 16 bits end at 4 standard deviations; what is cut off must not shift the rest
        mean, sd = fmean(values), pstdev(values)
        values = [min(3.99, max(-3.99, (v - mean) / sd)) for v in values]
    return struct.pack(f"={size}h", *(round(v * _DIST_SCALE) for v in values))


def _quantiles(distribution: str, size: int) -> list[float]:
    at = [(i + 0.5) / size for i in range(size)]
    normal = [NormalDist().inv_cdf(u) for u in at]
    if distribution == "normal":
        return normal
    pareto = [((1 - u) ** (-1 / 3) - 1.5) / 0.8660254 for u in at]  # shape 3, as iproute2's table
    if distribution == "pareto":
        return pareto
    return [0.25 * n + 0.75 * p for n, p in zip(normal, pareto, strict=True)]
