"""The atoms that act through the proxy: is what they say of their effect true?"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from process_rig import host_of
from proxy_rig import RunningProxy, echo, proxy_to, round_trip_ms, server

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.host import ProxyHandle
from chaosflow.faults._toxic import ToxicFault
from chaosflow.faults.proxy_bandwidth import ProxyBandwidth
from chaosflow.faults.proxy_down import ProxyDown
from chaosflow.faults.proxy_latency import ProxyLatency
from chaosflow.faults.proxy_limit_data import ProxyLimitData
from chaosflow.faults.proxy_reset_peer import ProxyResetPeer
from chaosflow.faults.proxy_slicer import ProxySlicer
from chaosflow.faults.proxy_timeout import ProxyTimeout
from chaosflow.faults.stream_stall import StreamStall


def _inject(atom: FaultAtom, proxy: RunningProxy, name: str = "slow") -> Undo:
    host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
    undo = asyncio.run(atom.plan(host, name))
    asyncio.run(atom.inject(undo))
    return undo


@pytest.mark.slow
def test_a_delay_that_is_confirmed_is_there_and_gone_after_the_revert() -> None:
    """chaosd 273, chaosblade 1315: success reported, no delay in effect. chaosd 207: rules left over."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        undo = _inject(ProxyLatency(delay_ms=40), proxy)
        assert asyncio.run(ProxyLatency.is_active(undo)).evidence == (
            "installed on 1 connections; 0 bytes have passed"
        )
        trips = [round_trip_ms(sock) for _ in range(31)]
        assert min(trips) >= 40
        effect = asyncio.run(ProxyLatency.is_active(undo))
        assert effect
        assert "on 31 chunks, 40 ms asked" in effect.evidence
        asyncio.run(ProxyLatency.revert(undo))
        assert min(round_trip_ms(sock) for _ in range(5)) < 40
        assert not asyncio.run(ProxyLatency.is_active(undo))
        assert proxy.call("GET", "/proxies/target/toxics") == (200, [])


def test_a_toxic_removed_behind_our_back_is_noticed() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        undo = _inject(ProxyLatency(delay_ms=40), proxy)
        proxy.remove("slow")
        assert asyncio.run(ProxyLatency.is_active(undo)).evidence == "not installed in the proxy"
        asyncio.run(ProxyLatency.revert(undo))


def test_a_proxy_deleted_by_somebody_counts_as_reverted() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        undo = _inject(ProxyLatency(delay_ms=40), proxy)
        assert proxy.call("DELETE", "/proxies/target")[0] == 204
        asyncio.run(ProxyLatency.revert(undo))
        assert not asyncio.run(ProxyLatency.is_active(undo))


def test_a_proxy_that_has_died_counts_as_reverted() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        undo = _inject(ProxyBandwidth(rate_kbytes_per_s=5), proxy)
        proxy.process.kill()
        proxy.process.wait()
        assert Path(proxy.control).exists()  # killed with -9 it leaves its socket
        asyncio.run(ProxyBandwidth.revert(undo))
        assert not asyncio.run(ProxyBandwidth.is_active(undo))


def test_injecting_twice_is_injecting_once() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        undo = _inject(ProxyLatency(delay_ms=40), proxy)
        asyncio.run(ProxyLatency(delay_ms=40).inject(undo))
        assert len(proxy.call("GET", "/proxies/target/toxics")[1]) == 1


def test_jitter_that_is_lost_is_not_confirmed() -> None:
    stats = {"delayed": 500, "delay_mean_ms": 28.0, "delay_sd_ms": 0.9, "requested_sd_ms": 5.8}
    effect = ProxyLatency.judge({"attributes": {"latency": 20}}, stats)
    assert not effect
    assert effect.evidence.endswith("less than half the jitter asked")


def test_a_delay_that_is_not_there_is_not_confirmed() -> None:
    stats = {"delayed": 500, "delay_mean_ms": 0.3, "delay_sd_ms": 0.1, "requested_sd_ms": 0}
    effect = ProxyLatency.judge({"attributes": {"latency": 20}}, stats)
    assert not effect
    assert "the mean is not what was asked" in effect.evidence


@pytest.mark.slow
def test_bandwidth_tells_the_rate_it_reached() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        undo = _inject(ProxyBandwidth(rate_kbytes_per_s=50, direction="both"), proxy)
        begin = time.monotonic()
        round_trip_ms(sock, bytes(20_000))
        assert time.monotonic() - begin >= 0.35
        effect = asyncio.run(ProxyBandwidth.is_active(undo))
        assert effect
        assert effect.evidence.startswith("downstream: ")
        assert "; upstream: " in effect.evidence
        asyncio.run(ProxyBandwidth.revert(undo))
        assert round_trip_ms(sock, bytes(20_000)) < 350


def test_resets_are_counted_and_stop_with_the_revert() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        undo = _inject(ProxyResetPeer(), proxy)
        for _ in range(3):
            with contextlib.suppress(ConnectionResetError, BrokenPipeError), proxy.connect() as sock:
                round_trip_ms(sock)
        assert asyncio.run(ProxyResetPeer.is_active(undo)).evidence == "3 of 3 connections reset"
        asyncio.run(ProxyResetPeer.revert(undo))
        with proxy.connect() as sock:
            round_trip_ms(sock)


def test_a_stall_that_never_came_is_not_confirmed() -> None:
    toxic = {"attributes": StreamStall(after_events=5).model_dump()}
    stats = {"chunks": 9, "events": 3, "streams": 2, "chosen": 2, "installed_s": 30.0}
    effect = StreamStall.judge(toxic, stats)
    assert effect.active
    assert not effect.met
    assert effect.evidence.endswith("no stream had 5 content events")
    assert StreamStall.judge(toxic, {**stats, "acted": 1.0, "holding": 1.0}).met


def test_a_small_probability_that_chose_no_stream_has_done_nothing() -> None:
    toxic = {"attributes": StreamStall(after_events=5, probability=0.1).model_dump()}
    stats = {"chunks": 9, "events": 900, "streams": 20, "chosen": 0, "installed_s": 30.0}
    effect = StreamStall.judge(toxic, stats)
    assert not effect.met
    assert "0 of 20 streams chosen" in effect.evidence
    assert effect.evidence.endswith("give it more time or a higher probability")


@pytest.mark.slow
def test_a_target_that_restarts_is_met_by_the_same_fault_and_reverted() -> None:
    """litmus-go 591, chaos-mesh 4827: the target restarts, and the revert cannot find it."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with proxy_to(port) as proxy:
        undo = _inject(ProxyLatency(delay_ms=40), proxy)
        with pytest.raises(ConnectionError), proxy.connect() as sock:
            round_trip_ms(sock)
        with server(echo, port) as again, proxy.connect() as sock:
            assert again == port
            assert round_trip_ms(sock) >= 40
            asyncio.run(ProxyLatency.revert(undo))
            assert min(round_trip_ms(sock) for _ in range(5)) < 40


def test_down_is_verified_by_a_refused_connection() -> None:
    """chaosd 273, chaosblade 1315: success reported, no effect."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        round_trip_ms(sock)
        undo = _inject(ProxyDown(), proxy)
        evidence = asyncio.run(ProxyDown.is_active(undo)).evidence
        assert evidence.endswith("1 open connections were reset, new ones are refused")
        asyncio.run(ProxyDown.revert(undo))
        assert not asyncio.run(ProxyDown.is_active(undo))
        with proxy.connect() as again:
            round_trip_ms(again)


def test_down_puts_back_what_was_and_not_a_default() -> None:
    """geopm 1629: no save and restore."""
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.call("POST", "/proxies/target", {"enabled": False})
        undo = _inject(ProxyDown(), proxy)
        asyncio.run(ProxyDown.revert(undo))
        assert proxy.call("GET", "/proxies/target")[1]["enabled"] is False


@pytest.mark.parametrize(
    ("atom", "toxic", "stats"),
    [
        (ProxySlicer, {"average_size": 10, "size_variation": 2}, {"pieces": 10.0, "bytes": 900}),
        (ProxyTimeout, {"timeout": 500}, {"bytes": 5, "held_bytes": 0}),
        (ProxyLimitData, {"bytes": 100}, {"bytes": 500}),
    ],
)
def test_an_effect_that_is_not_what_was_asked_is_not_confirmed(
    atom: type[ToxicFault], toxic: dict[str, Any], stats: dict[str, Any]
) -> None:
    known = {"connections": 1, "chunks": 3, "installed_s": 60.0, "held_bytes": 0}
    assert not atom.judge({"attributes": toxic}, {**known, **stats})


def test_the_second_of_two_directions_that_fails_is_a_failure() -> None:
    """krkn source: an error only if all failed. What the first step did is undone."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
        atom = ProxyLatency(delay_ms=60, direction="both")
        undo = asyncio.run(atom.plan(host, "slow"))
        undo.state["toxics"][1]["attributes"]["latency"] = -1  # as a proxy of another version would refuse it
        with pytest.raises(ChaosflowError, match="latency"):
            asyncio.run(atom.inject(undo))
        assert not asyncio.run(ProxyLatency.is_active(undo))
        asyncio.run(ProxyLatency.revert(undo))
        assert min(round_trip_ms(sock) for _ in range(5)) < 60
