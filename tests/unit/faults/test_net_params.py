"""What network faults refuse before anything is touched, and what they make of what they accept."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pydantic import ValidationError

from chaosflow.core.fault import FaultAtom
from chaosflow.faults.net_bandwidth import NetBandwidth
from chaosflow.faults.net_loss import NetLoss
from chaosflow.faults.net_netem import NetNetem
from chaosflow.faults.net_partition import NetPartition
from chaosflow.faults.net_reset import NetReset
from chaosflow.faults.net_retransmit import NetRetransmit
from chaosflow.linux import netem
from chaosflow.linux.netem import Netem
from chaosflow.linux.netlink import attr_map


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"delay_ms": 10, "jitter_ms": 11}, "jitter_ms is greater"),
        ({}, "nothing is asked for"),
        ({"loss_percent": 101}, "100"),
        ({"loss_percent": 5, "gemodel": {"p_percent": 1, "r_percent": 10}}, "exclude each other"),
        ({"delay_ms": 5, "distribution": "normal"}, "needs jitter_ms"),
        ({"delay_ms": 5, "delay_correlation_percent": 5}, "needs jitter_ms"),
        ({"delay_ms": 5, "loss_correlation_percent": 5}, "needs loss_percent"),
        ({"delay_ms": 5, "ecn": True}, "ecn"),
        ({"reorder_percent": 5, "loss_percent": 1}, "needs delay_ms"),
        ({"delay_ms": 5, "gap": 5}, "reorder_percent"),
        ({"delay_ms": 5, "packet_overhead_bytes": 5}, "rate_mbit_per_s"),
        ({"slot": {"min_ms": 5, "max_ms": 1}}, "greater than max_ms"),
        ({"delay_ms": 5, "addresses": ["nowhere"]}, "nowhere"),
        ({"delay_ms": 5, "ports": [0]}, "greater than or equal to 1"),
        ({"delay_ms": 5, "interface": "a-name-that-is-too-long"}, "15"),
    ],
)
def test_what_cannot_be_is_refused(params: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        NetNetem.model_validate(params)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (NetLoss, {"percent": 0}),
        (NetLoss, {}),
        (NetBandwidth, {"rate_mbit_per_s": 0}),
        (NetRetransmit, {"protocol": "udp"}),
        (NetReset, {"protocol": "any"}),
        (NetPartition, {"side": "left"}),
    ],
)
def test_other_kinds_refuse_too(kind: type[FaultAtom], params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(params)


def test_the_limit_is_sized_from_rate_and_delay() -> None:
    assert NetNetem(delay_ms=1).limit == 10_000
    assert NetNetem(delay_ms=1000, jitter_ms=500).limit == 600_000
    assert NetNetem(delay_ms=100, rate_mbit_per_s=1000).limit == 195_313
    assert NetNetem(delay_ms=100, limit_packets=7).limit == 7


def test_order_is_kept_per_flow_unless_said_otherwise() -> None:
    assert NetNetem(delay_ms=5, jitter_ms=1).per_flow
    assert not NetNetem(delay_ms=5, jitter_ms=1, reorder=True).per_flow
    assert not NetNetem(delay_ms=5).per_flow


def test_tables_have_mean_0_and_standard_deviation_1() -> None:
    for distribution in ("normal", "pareto", "paretonormal"):
        options = netem.netem_options(Netem(delay_ms=9, jitter_ms=1, distribution=distribution))
        table = attr_map(options[24:])[2]
        values = [v / 8192 for v in struct.unpack(f"={len(table) // 2}h", table)]
        mean = sum(values) / len(values)
        assert abs(mean) < 0.01, distribution
        assert abs((sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5 - 1) < 0.02, distribution


def test_what_is_written_is_read_back() -> None:
    seen = netem.read_netem(
        netem.netem_options(Netem(delay_ms=1.5, jitter_ms=0.25, limit=77, rate=5_000_000_000))
    )
    assert (seen.delay_ns, seen.jitter_ns, seen.limit, seen.rate) == (1_500_000, 250_000, 77, 5_000_000_000)
    assert not seen.neutral
    assert netem.read_netem(netem.netem_options(netem.neutral_netem(5))).neutral
    assert netem.tbf_rate(netem.tbf_options(10**6, 1 << 17, 1 << 20)) == 10**6
    assert netem.tbf_is_neutral(netem.neutral_tbf())
