"""Loss, partition, reset and retransmission on whatever kernel this is, in namespaces of our own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from net_rig import (
    OTHER_PORT,
    PORT,
    Space,
    echo,
    effect_of,
    in_effect,
    needs_root,
    planned,
    round_trip_ms,
    round_trips_ms,
    space,
    udp_lost,
)
from scipy.stats import binom

from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.faults._net import tcpstat
from chaosflow.faults._net.abilities import abilities
from chaosflow.faults._net.drop import BPF_RUNG, NFT_RUNG
from chaosflow.faults.net_bandwidth import NetBandwidth
from chaosflow.faults.net_loss import NetLoss
from chaosflow.faults.net_partition import NetPartition
from chaosflow.faults.net_reset import DESTROY_RUNG, NetReset
from chaosflow.faults.net_retransmit import NetRetransmit

pytestmark = [*needs_root, pytest.mark.slow]


class LossByBpf(NetLoss):
    """The other rung, on a kernel that has both."""

    def rung_at(self, interface: str) -> Capability:
        return Capability.yes(BPF_RUNG)


class PartitionByBpf(NetPartition):
    def rung_at(self, interface: str) -> Capability:
        return Capability.yes(BPF_RUNG)


@pytest.fixture
def where() -> Iterator[Space]:
    with space() as made, echo(made, PORT, OTHER_PORT):
        yield made


@pytest.mark.parametrize("kind", [NetLoss, LossByBpf])
@pytest.mark.parametrize("percent", [10, 35])
def test_that_share_is_lost_and_nothing_of_a_bystander(
    where: Space, kind: type[NetLoss], percent: float
) -> None:
    """chaosd 273, chaosblade 1315: success reported, nothing in effect."""
    atom, before = kind(percent=percent), where.look()
    with in_effect(atom, where.host()) as undo:
        assert undo.state["rung"] == atom.needs().rung
        lost = sum(udp_lost(where, 5000))
        low, high = binom.interval(0.9999, 5000, percent / 100)
        assert low <= lost <= high, f"{undo.state['rung']}: {lost} of 5000 lost"
        assert not any(udp_lost(where, 1000, OTHER_PORT))
        effect = effect_of(atom, undo)
        assert effect, effect.evidence
        assert str(lost) in effect.evidence
    assert where.look() == before
    assert not any(udp_lost(where, 1000))


def test_the_rung_is_named_and_the_quiet_one_comes_first() -> None:
    on_lo = NFT_RUNG if abilities().nft_netdev else BPF_RUNG
    assert NetLoss(percent=1).needs().rung == on_lo
    assert NetLoss(percent=1, interface="eth0").needs().rung == BPF_RUNG
    assert NetLoss(percent=1, interface="eth0", direction="ingress").needs().rung == on_lo


@pytest.mark.parametrize("kind", [NetPartition, PartitionByBpf])
def test_a_partition_is_silent_and_heals(where: Space, kind: type[NetPartition]) -> None:
    atom, before = kind(), where.look()
    with where.connect() as open_before:
        round_trip_ms(open_before)
        with in_effect(atom, where.host()) as undo:
            open_before.settimeout(0.4)
            with pytest.raises(TimeoutError):
                round_trip_ms(open_before)
            with pytest.raises(TimeoutError):
                where.connect(timeout_s=0.4).close()
            assert round_trips_ms(where, OTHER_PORT)
            assert effect_of(atom, undo)
        open_before.settimeout(20)
        assert open_before.recv(1) == b"x"  # what was sent into the silence arrives by retransmission
    assert where.look() == before


def test_a_one_way_partition_lets_the_other_way_pass(where: Space) -> None:
    with in_effect(NetPartition(side="from_target"), where.host()):
        assert not any(udp_lost(where, 200))  # datagrams to the target arrive
        with pytest.raises(TimeoutError):
            where.connect(timeout_s=0.4).close()


def test_filters_by_address_and_exclusions(where: Space) -> None:
    atom = NetPartition(addresses=("127.0.0.0/30",), exclude_addresses=("127.0.0.2",))
    with (
        in_effect(atom, where.host()),
        where.socket(socket.SOCK_DGRAM) as sink,
        where.socket(socket.SOCK_DGRAM) as source,
    ):
        sink.bind(("0.0.0.0", PORT))
        sink.settimeout(0.2)
        source.bind(("127.0.0.9", 0))
        arrived = []
        for last in (1, 2, 3, 4):
            source.sendto(bytes([last]), (f"127.0.0.{last}", PORT))
        with contextlib.suppress(TimeoutError):
            while True:
                arrived.append(sink.recv(1)[0])
    assert arrived == [2, 4]


def test_ipv6_is_met_too(where: Space) -> None:
    def sent() -> bool:
        with (
            _in6(where) as sink,
            _in6(where) as source,
        ):
            sink.bind(("::1", PORT))
            sink.settimeout(0.2)
            source.sendto(b"x", ("::1", PORT))
            with contextlib.suppress(TimeoutError):
                return sink.recv(1) == b"x"
            return False

    assert sent()
    with in_effect(NetPartition(addresses=("::1",)), where.host()):
        assert not sent()
    with in_effect(NetPartition(addresses=("::2",)), where.host()):
        assert sent()
    with in_effect(NetPartition(protocol="tcp"), where.host()):
        assert sent()


def _in6(where: Space) -> socket.socket:
    from chaosflow.linux.netns import call_inside

    return call_inside(where.fd, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))


def test_reset_ends_a_stream_at_both_ends_and_refuses_new_ones(where: Space) -> None:
    """toxiproxy: FIN instead of RST in mid-stream."""
    _need_reject()
    before = where.look()
    with where.socket() as listener:
        listener.bind(("127.0.0.1", 7100))
        listener.listen()
        with where.connect(7100) as client:
            server, _ = listener.accept()
            with server, in_effect(NetReset(), where.host(7100)) as undo:
                with pytest.raises(ConnectionResetError):
                    round_trip_ms(client)
                with pytest.raises(ConnectionError):
                    _stream(server)
                with pytest.raises(ConnectionRefusedError):
                    where.connect(7100, 2.0).close()
                assert round_trips_ms(where, OTHER_PORT)
                assert effect_of(NetReset(), undo)
        assert where.look() == before
        with where.connect(7100):
            pass


def test_reset_reaches_a_client_that_only_waits_and_no_bystander(where: Space) -> None:
    """A streaming client sends nothing in mid-stream: a RST that answers packets never came its way."""
    _need_reject()
    if DESTROY_RUNG not in NetReset().needs().rung:
        pytest.skip("this kernel has no SOCK_DESTROY (CONFIG_INET_DIAG_DESTROY)")
    with where.socket() as listener, where.connect(OTHER_PORT) as bystander:
        listener.bind(("127.0.0.1", 7101))
        listener.listen()
        with where.connect(7101) as waiting, where.connect(7101) as idle:
            streams = [listener.accept()[0] for _ in range(2)]
            streams[0].send(b"token")
            assert waiting.recv(16) == b"token"
            with streams[0], streams[1], in_effect(NetReset(), where.host(7101)) as undo:
                for end in (waiting, idle):
                    with pytest.raises(ConnectionResetError):
                        end.recv(16)
                for end in streams:
                    with pytest.raises(ConnectionError):
                        end.recv(16)
                effect = effect_of(NetReset(), undo)
                assert effect, "what it ended it has met, though nobody sends any more"
                assert "2 open connections ended" in effect.evidence
        assert round_trip_ms(bystander) < 1000


def test_a_reset_of_a_share_of_the_packets_leaves_idle_connections(where: Space) -> None:
    _need_reject()
    with where.connect() as client:
        with in_effect(NetReset(percent=50), where.host()):
            pass
        assert round_trip_ms(client) < 1000


def _stream(sock: socket.socket) -> None:
    for _ in range(50):
        sock.send(b"token")
        time.sleep(0.002)


def _need_reject() -> None:
    if not (capability := NetReset().needs()).ok:
        pytest.skip(capability.reason)


def test_retransmission_is_seen_by_the_kernels_counters(where: Space) -> None:
    atom, before = NetRetransmit(percent=25), where.look()
    with in_effect(atom, where.host()) as undo:
        slowest = max(round_trips_ms(where, count=40))
        effect = effect_of(atom, undo)
        assert effect, effect.evidence
        assert "sent again" in effect.evidence
    assert slowest > 100  # a retransmission timeout is at least 200 ms, a tail loss probe less
    assert where.look() == before


@pytest.mark.parametrize("atom", [NetLoss(percent=50), NetReset(), NetRetransmit()])
def test_a_fault_that_no_packet_meets_is_not_confirmed(where: Space, atom: FaultAtom) -> None:
    """chaosd 273: success reported, no effect."""
    if not atom.check(where.host()).ok:
        pytest.skip(atom.check(where.host()).reason)
    with in_effect(atom, where.host()) as undo:
        effect = effect_of(atom, undo)
        assert not effect
        assert effect.evidence.startswith("0 packets")


def test_the_sender_is_told_nothing(where: Space) -> None:
    """A drop in nft's output hook makes send() fail; a lossy wire does not."""
    with in_effect(NetPartition(), where.host()), where.socket(socket.SOCK_DGRAM) as source:
        source.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR: errors of the local stack too
        for _ in range(50):
            assert source.sendto(b"x", ("127.0.0.1", PORT)) == 1


def test_planning_changes_nothing_and_two_at_once_let_go_in_any_order(where: Space) -> None:
    """pumba 115, 168: the second fault fails and then sticks."""
    import asyncio

    before = where.look()
    one, two = NetLoss(percent=20), NetLoss(percent=30)
    first, second = planned(one, where.host(), "one"), planned(two, where.host(), "two")
    assert where.look() == before
    for order in ((first, second), (second, first)):
        for atom, undo in ((one, first), (two, second)):
            asyncio.run(atom.inject(undo))
        lost = sum(udp_lost(where, 4000))
        low, high = binom.interval(0.9999, 4000, 1 - 0.8 * 0.7)
        assert low <= lost <= high
        for undo in order:
            asyncio.run(one.revert(undo))
            assert not asyncio.run(one.is_active(undo))
        assert where.look() == before


@pytest.mark.skipif(not abilities().nft_netdev, reason="this kernel's nftables has no family netdev")
@pytest.mark.parametrize("atom", [NetPartition(), NetBandwidth(rate_mbit_per_s=1)], ids=lambda a: a.kind)
def test_traffic_goes_on_while_faults_come_and_go(where: Space, atom: FaultAtom) -> None:
    """A bystander never loses a byte, at inject, at revert and between."""
    stop, slowest = threading.Event(), [0.0]

    def chat() -> None:
        with where.connect(OTHER_PORT) as sock:
            while not stop.is_set():
                slowest[0] = max(slowest[0], round_trip_ms(sock))

    before = tcpstat.retransmitted(where.fd)
    thread = threading.Thread(target=chat)
    thread.start()
    try:
        for number in range(5):
            with in_effect(atom, where.host(), f"cut-{number}"):
                time.sleep(0.02)
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    assert tcpstat.retransmitted(where.fd) == before, f"{slowest[0]:.0f} ms: a packet was sent again"


@pytest.mark.parametrize("shaped_first", [True, False])
def test_loss_acts_on_what_a_narrow_line_lets_through(where: Space, shaped_first: bool) -> None:
    host, line, loss = where.host(), NetBandwidth(rate_mbit_per_s=50), NetLoss(percent=30)
    before = where.look()
    with (
        in_effect(line if shaped_first else loss, host, "first"),
        in_effect(loss if shaped_first else line, host, "second"),
    ):
        lost = sum(udp_lost(where, 3000))
        low, high = binom.interval(0.9999, 3000, 0.3)
        assert low <= lost <= high
    assert where.look() == before
