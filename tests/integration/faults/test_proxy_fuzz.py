"""Random toxics on random streams, cut at random: what comes out is a prefix of what may come, and no error."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from typing import Any

import pytest
from proxy_rig import CHAT, RunningProxy, ask, proxy_to, server, sse_response

ROUNDS = 25
TOXICS: dict[str, dict[str, list[Any]]] = {
    "latency": {"latency": [1, 20], "jitter": [0, 1]},
    "bandwidth": {"rate": [50, 500]},
    "slow_close": {"delay": [1, 50]},
    "timeout": {"timeout": [30, 100]},
    "reset_peer": {"timeout": [10, 100]},
    "slicer": {"average_size": [5, 50], "delay": [0, 200]},
    "limit_data": {"bytes": [0, 300, 2000]},
    "idle_cut": {"idle": [30, 100], "reset": [True, False]},
    "http_reject": {"status": [429, 503], "probability": [0.3, 1]},
    "sse_stall": {"after_events": [1, 4], "stall_ms": [20]},
    "sse_truncate": {"after_events": [1, 5], "ending": ["clean", "cut", "reset"]},
    "sse_coalesce": {"events": [2, 30], "hold_ms": [10, None]},
    "sse_first_token": {"delay_ms": [20]},
    "sse_corrupt": {"events": [1, None], "damage": ["json", "utf8", "field"]},
    "sse_duplicate": {"events": [1, None]},
    "sse_reorder": {"at_event": [1, 6]},
    "sse_error": {"after_events": [0, 3], "then": ["done", "clean", "cut", "go_on"]},
    "sse_drop_done": {"finish_reason": [True, False]},
    "sse_split": {"anywhere": [True]},
}


def _random_toxic(rng: random.Random, name: str) -> dict[str, Any]:
    kind = rng.choice(sorted(TOXICS))
    only = "downstream" if kind.startswith("sse_") else "upstream" if kind == "http_reject" else None
    attributes = {key: rng.choice(values) for key, values in TOXICS[kind].items()}
    return {
        "type": kind,
        "name": name,
        "stream": only or rng.choice(["upstream", "downstream"]),
        "toxicity": rng.choice([0, 0.5, 1]),
        "attributes": attributes,
    }


def _clients(proxy: RunningProxy, stop: threading.Event) -> list[threading.Thread]:
    def browse() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                ask(proxy, CHAT)

    return [threading.Thread(target=browse) for _ in range(4)]


@pytest.mark.slow
def test_random_toxics_leave_a_proxy_that_works() -> None:
    rng = random.Random(11)
    whole = b"".join(sse_response(20))

    def serve(sock: socket.socket) -> None:
        cuts = random.Random(sock.fileno())
        while sock.recv(1 << 16):
            position = 0
            while position < len(whole):
                size = cuts.choice([1, 7, 60, 150, 2000])
                sock.sendall(whole[position : position + size])
                position += size
                time.sleep(0.0005)

    with server(serve) as port, proxy_to(port) as proxy:
        stop = threading.Event()
        clients = _clients(proxy, stop)
        for client in clients:
            client.start()
        try:
            for i in range(ROUNDS):
                names = [f"t{i}.{k}" for k in range(rng.randint(1, 4))]
                for name in names:
                    status, answer = proxy.call("POST", "/proxies/target/toxics", _random_toxic(rng, name))
                    assert status == 200, answer
                time.sleep(0.1)
                rng.shuffle(names)
                for name in names:
                    proxy.remove(name)
                assert ask(proxy) == (whole, "complete")
        finally:
            stop.set()
            for client in clients:
                client.join(30)
        assert ask(proxy) == (whole, "complete")
        deadline = time.monotonic() + 10
        while proxy.call("GET", "/proxies/target")[1]["stats"]["open"]:
            assert time.monotonic() < deadline, "a connection has leaked"
            time.sleep(0.02)
