"""Rigs of the proxy and stream faults: a real proxy before an echo server, or before one that streams tokens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from contract_rig import Rig
from process_rig import host_of
from proxy_rig import RunningProxy, ask, echo, proxy_to, round_trip_ms, server, streaming

from chaosflow.core.host import ProxyHandle
from chaosflow.faults.proxy import client

SHARED = contextlib.ExitStack()
"""Two proxies for all rigs, started when first needed; closed at the end of the session."""


@cache
def _proxy_to_echo() -> RunningProxy:
    return SHARED.enter_context(proxy_to(SHARED.enter_context(server(echo))))


@cache
def _proxy_to_streams() -> RunningProxy:
    return SHARED.enter_context(proxy_to(SHARED.enter_context(server(streaming(6)))))


def _idle(proxy: RunningProxy) -> RunningProxy:
    """The proxy, when nothing of an earlier test is open on it any more: it would be met."""
    give_up = time.monotonic() + 10
    while proxy.call("GET", "/proxies/target")[1]["stats"]["open"]:
        assert time.monotonic() < give_up, "a connection of an earlier test stays open"
        time.sleep(0.005)
    return proxy


@contextlib.contextmanager
def _echoing(params: dict[str, Any], *, breaks: bool = False) -> Iterator[Rig]:
    proxy = _idle(_proxy_to_echo())

    def drive() -> None:
        try:
            with proxy.connect() as sock:
                for _ in range(3):
                    round_trip_ms(sock)
                sock.shutdown(socket.SHUT_WR)
        except (OSError, AssertionError):
            assert breaks
        else:
            assert not breaks, "the connection should have been broken"

    host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
    yield Rig(params, host, lambda: proxy.call("GET", "/proxies/target/toxics"), drive)


@contextlib.contextmanager
def _down() -> Iterator[Rig]:
    with _echoing({}, breaks=True) as rig:
        assert rig.host.proxy
        control = str(rig.host.proxy.control)

        def look() -> Any:
            proxy = asyncio.run(client.get_proxy(control, "target"))
            return proxy["enabled"], proxy["listen"]

        yield replace(rig, look=look)


@contextlib.contextmanager
def _streaming(params: dict[str, Any]) -> Iterator[Rig]:
    proxy = _idle(_proxy_to_streams())

    def drive() -> None:
        for _ in range(2):
            ask(proxy)

    host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
    yield Rig(params, host, lambda: proxy.call("GET", "/proxies/target/toxics"), drive)


PROXY_RIGS: dict[str, Callable[[], contextlib.AbstractContextManager[Rig]]] = {
    "proxy.latency": lambda: _echoing({"delay_ms": 20, "jitter_ms": 5, "direction": "both"}),
    "proxy.bandwidth": lambda: _echoing({"rate_kbytes_per_s": 10}),
    "proxy.reset_peer": lambda: _echoing({"after_ms": 0}, breaks=True),
    "proxy.timeout": lambda: _echoing({"after_ms": 50}, breaks=True),
    "proxy.slow_close": lambda: _echoing({"delay_ms": 20}),
    "proxy.slicer": lambda: _echoing({"average_bytes": 4, "variation_bytes": 2, "direction": "both"}),
    "proxy.limit_data": lambda: _echoing({"limit_bytes": 2}, breaks=True),
    "proxy.down": _down,
    "stream.stall": lambda: _streaming({"after_events": 2, "stall_ms": 100}),
    "stream.truncate": lambda: _streaming({"after_events": 2, "ending": "cut"}),
    "stream.coalesce": lambda: _streaming({"events": 3, "hold_ms": 500}),
    "stream.slow_first_token": lambda: _streaming({"delay_ms": 30}),
    "stream.corrupt": lambda: _streaming({"damage": "utf8"}),
    "stream.duplicate": lambda: _streaming({"at_event": 1, "events": None}),
    "stream.reorder": lambda: _streaming({"at_event": 1}),
    "stream.error_event": lambda: _streaming({"after_events": 0}),
    "stream.drop_done": lambda: _streaming({"finish_reason": True, "path": "/v1/chat/*"}),
    "stream.split_utf8": lambda: _streaming({"anywhere": True}),
    "stream.idle_cut": lambda: _echoing({"idle_ms": 5000}),
    "stream.reject": lambda: _streaming({"status": 503, "retry_after_s": 2, "count": 1}),
}
