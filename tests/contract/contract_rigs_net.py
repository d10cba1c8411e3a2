"""Rigs of the network faults: a namespace of their own, an echo server in it, its whole state as text."""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

from contract_rig import Rig
from net_rig import PORT, Space, echo, round_trips_ms, space

from chaosflow.faults._net.abilities import abilities


@contextlib.contextmanager
def _net(params: dict[str, Any], traffic: Callable[[Space], object]) -> Iterator[Rig]:
    with space() as where, echo(where, PORT):
        yield Rig(params, where.host(), where.look, lambda: traffic(where))


def _some(where: Space) -> None:
    """A few round trips; what is lost is not asked for again."""
    with contextlib.suppress(OSError):
        round_trips_ms(where, count=10, timeout_s=0.5)


def _many(where: Space) -> None:
    with where.socket(socket.SOCK_DGRAM) as source:
        for _ in range(400):
            with contextlib.suppress(ConnectionRefusedError):
                source.sendto(b"x", ("127.0.0.1", PORT))


def _until_sent_again(where: Space) -> None:
    for _ in range(20):
        with contextlib.suppress(TimeoutError):  # six losses in a row: sent again often enough
            round_trips_ms(where, count=3)


NET_RIGS: dict[str, Callable[[], contextlib.AbstractContextManager[Rig]]] = {
    "net.netem": functools.partial(_net, {"delay_ms": 20, "jitter_ms": 5}, _some),
    "net.loss": functools.partial(_net, {"percent": 30}, _many),
    "net.partition": functools.partial(_net, {}, _some),
    "net.reset": functools.partial(_net, {}, _some),
    "net.bandwidth": functools.partial(_net, {"rate_mbit_per_s": 50, "direction": "both"}, _some),
    "net.retransmit": functools.partial(_net, {"percent": 20}, _until_sent_again),
}


def _cannot() -> dict[str, str]:
    if not abilities().admin:
        return {}
    have = abilities()
    found = {"net.netem": have.missing("steer", "netem", "htb"), "net.reset": have.missing("nft_reject")}
    return {kind: f"{lacks.reason}; make test-guest" for kind, lacks in found.items() if lacks is not None}


NET_CANNOT_HERE = _cannot()
NET_NEED_ROOT = set(NET_RIGS) - set(NET_CANNOT_HERE)
