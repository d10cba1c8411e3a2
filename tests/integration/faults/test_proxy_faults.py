"""The atoms that act through the proxy: is what they say of their effect true?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from process_rig import host_of
from proxy_rig import RunningProxy, echo, proxy_to, round_trip_ms, server

from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.host import ProxyHandle
from chaosflow.faults.proxy_bandwidth import ProxyBandwidth
from chaosflow.faults.proxy_latency import ProxyLatency
from chaosflow.faults.proxy_reset_peer import ProxyResetPeer
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
            "installed on 1 connections; no byte has passed yet"
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
    stats = {"chunks": 9, "events": 3, "installed_s": 30.0}
    assert not StreamStall.judge(toxic, stats)
    assert StreamStall.judge(toxic, {**stats, "installed_s": 1.0})
    assert StreamStall.judge(toxic, {**stats, "stalls": 1.0, "holding": 1.0})
