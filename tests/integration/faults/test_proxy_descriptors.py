"""Where the proxy has no file descriptor left: new connections wait, streams go on, toxics can be removed."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from process_rig import host_of
from proxy_rig import RunningProxy, echo, proxy_to, receive, round_trip_ms, server

from chaosflow.core.host import ProxyHandle
from chaosflow.faults.proxy_latency import ProxyLatency

pytestmark = pytest.mark.slow
LIMIT = 128


@contextlib.contextmanager
def crowded() -> Iterator[tuple[RunningProxy, list[socket.socket]]]:
    """A proxy with room for some 50 connections, and 100 that were begun."""
    with server(echo) as port, proxy_to(port) as proxy, contextlib.ExitStack() as open_ones:
        proxy.add("latency", latency=1)
        _, most = resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (LIMIT, most))
        yield proxy, [open_ones.enter_context(proxy.connect()) for _ in range(100)]


def test_it_neither_spins_nor_complains_and_its_api_answers() -> None:
    with crowded() as (proxy, clients):
        give_up = time.monotonic() + 10
        while not (stats := proxy.call("GET", "/proxies/target")[1]["stats"])["starved"]:
            assert time.monotonic() < give_up, stats
            time.sleep(0.01)
        process = psutil.Process(proxy.process.pid)
        before = process.cpu_times()
        time.sleep(1.0)
        after = process.cpu_times()
        assert after.user + after.system - before.user - before.system < 0.3
        assert round_trip_ms(clients[0]) >= 1
        proxy.remove()
        assert stats["upstream_failures"] == 0  # the server is not to blame
        assert 20 <= stats["open"] < LIMIT / 2


def test_a_fault_is_not_confirmed_where_the_proxy_itself_failed() -> None:
    """What waited or failed for want of a descriptor would be taken for the target's doing."""
    with crowded() as (proxy, clients):
        host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
        undo = asyncio.run(ProxyLatency(delay_ms=5).plan(host, "slow"))
        asyncio.run(ProxyLatency(delay_ms=5).inject(undo))
        round_trip_ms(clients[0])
        effect = asyncio.run(ProxyLatency.is_active(undo))
        assert (effect.active, effect.met) == (True, False), effect.evidence
        assert "no file descriptor left" in effect.evidence
        asyncio.run(ProxyLatency.revert(undo))
        assert not asyncio.run(ProxyLatency.is_active(undo))


def test_who_waits_is_served_when_others_leave() -> None:
    with crowded() as (_, clients):
        for client in clients[:80]:
            client.close()
        clients[-1].sendall(b"at last")
        assert receive(clients[-1], 7) == b"at last"
