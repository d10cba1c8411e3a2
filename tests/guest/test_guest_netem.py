"""``net.netem`` on a kernel that has it: what is asked for is what packets get, and bystanders get nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from net_rig import (
    OTHER_PORT,
    PORT,
    Space,
    echo,
    effect_of,
    in_effect,
    planned,
    round_trips_ms,
    space,
    udp_lost,
)
from scipy.stats import binom
from told import tell

from chaosflow.core.fault import FaultAtom
from chaosflow.faults._net import tcpstat
from chaosflow.faults.net_bandwidth import NetBandwidth
from chaosflow.faults.net_loss import NetLoss
from chaosflow.faults.net_netem import NetNetem

pytestmark = [pytest.mark.guest, pytest.mark.slow]


@pytest.fixture
def where() -> Iterator[Space]:
    with space() as made, echo(made, PORT, OTHER_PORT):
        yield made


def test_50_ms_each_way_and_nothing_for_others(where: Space) -> None:
    """chaosd 273: RTT measured after inject."""
    atom, before = NetNetem(delay_ms=50), where.look()
    with in_effect(atom, where.host()) as undo:
        took = round_trips_ms(where, count=30)
        others = round_trips_ms(where, OTHER_PORT, 200)
        assert min(took) >= 100
        tell(f"50±0: RTT median {statistics.median(took):.2f} ms, others {statistics.median(others):.2f} ms")
        assert statistics.median(took) <= 125
        assert statistics.median(others) < 25  # usually 0.3; the host may be busy
        effect = effect_of(atom, undo)
        assert effect, effect.evidence
        assert "handshakes" in effect.evidence
    assert where.look() == before
    assert statistics.median(round_trips_ms(where, count=50)) < 25


@pytest.mark.parametrize(("direction", "crossings"), [("ingress", 2), ("both", 4)])
def test_each_hook_adds_its_delay(where: Space, direction: Any, crossings: int) -> None:
    before = where.look()
    with in_effect(NetNetem(delay_ms=10, direction=direction), where.host()):
        took = round_trips_ms(where, count=20)
    assert 10 * crossings <= min(took)
    assert statistics.median(took) <= 10 * crossings + 15
    assert where.look() == before


def test_one_side_alone(where: Space) -> None:
    with in_effect(NetNetem(delay_ms=30, side="from_target"), where.host()):
        took = round_trips_ms(where, count=15)
    assert 30 <= min(took) < 59


def test_ten_percent_loss(where: Space) -> None:
    with in_effect(NetNetem(loss_percent=10), where.host()):
        lost = sum(udp_lost(where, 4000))
        assert not any(udp_lost(where, 500, OTHER_PORT))
    low, high = binom.interval(0.999, 4000, 0.1)
    tell(f"10 % loss: {lost / 40:.2f} %")
    assert low <= lost <= high


def test_gilbert_elliott_loses_in_bursts(where: Space) -> None:
    atom = NetNetem.model_validate({"gemodel": {"p_percent": 5, "r_percent": 25}})
    with in_effect(atom, where.host()):
        lost = udp_lost(where, 20_000)
    bursts, run = [], 0
    for one in [*lost, False]:
        if one:
            run += 1
        elif run:
            bursts.append(run)
            run = 0
    mean = statistics.fmean(bursts)
    tell(f"gemodel: mean burst {mean:.2f} of 4.00, loss {sum(lost) / 200:.2f} % of 16.67")
    assert 3.4 <= mean <= 4.6
    assert 0.13 <= sum(lost) / len(lost) <= 0.205


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_jitter_keeps_the_order_of_each_flow(where: Space, distribution: Any) -> None:
    """srt 735: 1 ms of netem jitter made 4,000 of 9,000 packets retransmit."""
    atom = NetNetem(delay_ms=20, jitter_ms=10, distribution=distribution, side="to_target")
    sd_wanted = 10 if distribution == "normal" else 10 / 3**0.5
    means = []
    with in_effect(atom, where.host()):
        for _ in range(4):  # a busy machine stops the guest now and then, which only ever adds
            took, reordered = _flows(where, flows=64, count=3200, spacing_s=0.0001)
            mean, sd = statistics.fmean(took), statistics.pstdev(took)
            tell(
                f"jitter 20±10 {distribution}: mean {mean:.2f}, sd {sd:.2f}, {reordered} of {len(took)} reordered"
            )
            assert len(took) == 3200
            assert reordered == 0
            assert sd >= sd_wanted / 2
            means.append(mean)
            if mean <= 22:
                break
    assert 18 <= min(means) <= (22 if distribution == "uniform" else 25)


def test_jitter_may_reorder_when_asked_to(where: Space) -> None:
    with in_effect(NetNetem(delay_ms=20, jitter_ms=10, reorder=True, side="to_target"), where.host()):
        _, reordered = _flows(where, flows=4, count=1000, spacing_s=0.0001)
    assert reordered > 50


def _flows(where: Space, *, flows: int, count: int, spacing_s: float) -> tuple[list[float], int]:
    """One-way times in ms of UDP packets of several flows, by the kernel's receive stamps; how many overtook."""
    took: list[float] = []
    newest = dict.fromkeys(range(flows), -1)
    overtaken = 0
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(where.socket(socket.SOCK_DGRAM))
        sink.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)
        sink.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        sink.bind(("127.0.0.1", PORT))
        sink.settimeout(1.0)
        sources = [stack.enter_context(where.socket(socket.SOCK_DGRAM)) for _ in range(flows)]
        for source in sources:
            source.connect(("127.0.0.1", PORT))

        def send() -> None:
            begun = time.perf_counter()
            for number in range(count):
                flow = number % flows
                sources[flow].send(
                    struct.pack("=IIQ", flow, number, time.clock_gettime_ns(time.CLOCK_REALTIME))
                )
                while time.perf_counter() < begun + number * spacing_s:
                    time.sleep(0)

        thread = threading.Thread(target=send)
        thread.start()
        with contextlib.suppress(TimeoutError):
            while len(took) < count:
                data, ancillary, _, _ = sink.recvmsg(64, 256)
                flow, number, sent_ns = struct.unpack("=IIQ", data)
                seconds, nanos = struct.unpack("=qq", ancillary[0][2][:16])
                took.append((seconds * 10**9 + nanos - sent_ns) / 1e6)
                overtaken += number < newest[flow]
                newest[flow] = max(newest[flow], number)
        thread.join()
    return took, overtaken


def test_a_revert_loses_nothing_and_keeps_the_order(where: Space) -> None:
    """Toxiproxy: removing latency flushes what is queued, undelayed."""
    atom = NetNetem(delay_ms=80, side="to_target")
    undo = planned(atom, where.host())
    asyncio.run(atom.inject(undo))
    timer = threading.Timer(0.3, lambda: asyncio.run(atom.revert(undo)))
    timer.start()
    try:
        took, reordered = _flows(where, flows=1, count=1200, spacing_s=0.0005)
    finally:
        timer.join()
    assert len(took) == 1200, "packets were lost at the revert"
    assert reordered == 0
    assert max(took) >= 80
    assert min(took) < 20


def test_two_compose_and_let_go_in_any_order(where: Space) -> None:
    """pumba 115, 168: second netem fault: "File exists", then it sticks."""
    before = where.look()
    one, two, line = NetNetem(delay_ms=20), NetNetem(delay_ms=10), NetBandwidth(rate_mbit_per_s=50)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        undos = [
            (atom, planned(atom, where.host(), name)) for atom, name in ((one, "a"), (two, "b"), (line, "c"))
        ]
        for atom, undo in undos:
            asyncio.run(atom.inject(undo))
        both = round_trips_ms(where, count=10)
        assert min(both) >= 60
        assert statistics.median(both) < 90
        for number in order:
            atom, undo = undos[number]
            asyncio.run(atom.revert(undo))
            assert not asyncio.run(atom.is_active(undo))
        assert where.look() == before


def test_after_a_jitter_that_keeps_order_nothing_can_follow(where: Space) -> None:
    jitter = NetNetem(delay_ms=20, jitter_ms=5)
    with in_effect(jitter, where.host(), "jitter"), in_effect(NetLoss(percent=10), where.host(), "loss"):
        late = NetNetem(delay_ms=10)
        undo = planned(late, where.host(), "late")
        with pytest.raises(Exception, match="inject that one last"):
            asyncio.run(late.inject(undo))
        asyncio.run(late.revert(undo))
        assert min(round_trips_ms(where, count=5, timeout_s=20)) >= 30  # the jitter still acts


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"duplicate_percent": 20, "duplicate_correlation_percent": 10}, "duplicate 20%"),
        ({"corrupt_percent": 5}, "corrupt 5%"),
        ({"delay_ms": 5, "reorder_percent": 25, "gap": 5}, "reorder 25% gap 5"),
        ({"rate_mbit_per_s": 8, "packet_overhead_bytes": 14, "cell_size_bytes": 48, "cell_overhead_bytes": 5},
         "rate 8Mbit packetoverhead 14 cellsize 48 celloverhead 5"),
        ({"slot": {"min_ms": 1, "max_ms": 2, "packets": 8, "kbytes": 64}}, "slot 1ms 2ms packets 8 bytes 65536"),
        ({"loss_percent": 3, "loss_correlation_percent": 25, "ecn": True}, "loss 3% 25%"),
        ({"state": {"p13_percent": 2, "p31_percent": 50}}, "loss state p13 2% p31 50%"),
        ({"gemodel": {"p_percent": 1, "r_percent": 10, "loss_in_bad_percent": 70, "loss_in_good_percent": 0.1}},
         "loss gemodel p 1% r 10% 1-h 70% 1-k 0.1%"),
        ({"delay_ms": 10, "jitter_ms": 5, "distribution": "pareto", "delay_correlation_percent": 25, "reorder": True},
         "delay 10ms  5ms 25%"),
        ({"delay_ms": 10, "jitter_ms": 5, "distribution": "paretonormal", "loss_percent": 1}, "delay 10ms  5ms"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_the_kernel_understands_every_option(where: Space, params: dict[str, Any], shown: str) -> None:
    """Read back by tc, which did not set it."""
    atom, before = NetNetem.model_validate(params), where.look()
    with in_effect(atom, where.host()):
        assert shown in where.run("tc qdisc show"), where.run("tc qdisc show")
    assert where.look() == before


def test_a_spread_below_half_of_what_was_asked_is_not_confirmed(where: Space) -> None:
    atom = NetNetem(delay_ms=20, jitter_ms=10, distribution="normal")
    with in_effect(atom, where.host()) as undo:
        round_trips_ms(where, count=5)
        assert effect_of(atom, undo), effect_of(atom, undo).evidence
        undo.state["expect"]["sd_ms"] = 60.0
        effect = effect_of(atom, undo)
        assert not effect
        assert "(sd)" in effect.evidence


def test_the_default_limit_loses_nothing(where: Space) -> None:
    """netem's own limit of 1000 packets drops what is held beyond, unasked."""
    with in_effect(NetNetem(delay_ms=400, side="to_target"), where.host()) as undo:
        took, _ = _flows(where, flows=1, count=3000, spacing_s=0.00005)
        assert len(took) == 3000
        assert "dropped" not in effect_of(NetNetem(delay_ms=400), undo).evidence


@pytest.mark.parametrize(
    ("atom", "within_ms"),
    [
        (NetNetem(delay_ms=5), 100),
        (NetNetem(delay_ms=5, direction="both"), 100),
        (NetNetem(delay_ms=20, jitter_ms=5), 300),
        (NetLoss(percent=10), 100),
    ],
    ids=["delay", "both", "jitter", "loss"],
)
def test_injecting_and_verifying_is_quick(where: Space, atom: FaultAtom, within_ms: float) -> None:
    """The figure is told; the bound is wide: a guest without a CPU of its own stands still now and then."""

    async def play() -> list[float]:
        took = []
        for number in range(21):
            undo = await atom.plan(where.host(), f"n{number}")
            begun = time.perf_counter()
            await atom.inject(undo)
            assert await atom.is_active(undo)
            took.append((time.perf_counter() - begun) * 1e3)
            await atom.revert(undo)
        return took

    took = asyncio.run(play())
    asked = ", ".join(f"{k} {v}" for k, v in atom.model_dump(exclude_defaults=True).items())
    tell(
        f"{atom.kind} ({asked}): inject + verify median {statistics.median(took):.1f} ms, least {min(took):.1f} ms"
    )
    assert statistics.median(took) < within_ms


def test_a_millisecond_of_jitter_makes_nobody_send_again(where: Space) -> None:
    """srt 735: 1 ms of netem jitter made 4,000 of 9,000 packets retransmit."""
    atom = NetNetem(delay_ms=3, jitter_ms=1, distribution="normal", side="to_target")
    with in_effect(atom, where.host()), where.connect() as sock:
        took, reordered = _flows(where, flows=1, count=9000, spacing_s=0.0001)
        assert (len(took), reordered) == (9000, 0)
        before = tcpstat.retransmitted(where.fd)
        for _ in range(40):
            sock.sendall(bytes(32_768))
            left = 32_768
            while left:
                left -= len(sock.recv(left))
        again = tcpstat.retransmitted(where.fd) - before
    tell(f"jitter 3±1: 0 of 9000 packets reordered, {again} segments of 1.3 MB by TCP sent again")
    assert again <= 5
