"""Toxics that come and go under load, a few hundred times each; bench/bench_proxy.py does a thousand."""

from __future__ import annotations

import socket
import threading

import pytest
from cycles import HARMLESS, lost_bytes_of_numbers, lost_events
from proxy_rig import echo, proxy_to, receive_all, server

CYCLES = 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(HARMLESS))
def test_a_toxic_comes_and_goes_without_a_byte_lost_or_moved(kind: str) -> None:
    """Shopify's own race test, with every byte checked."""
    sent, right = lost_bytes_of_numbers(kind, CYCLES)
    assert sent
    assert right


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(kind for kind in HARMLESS if kind.startswith("sse_")))
def test_a_stream_toxic_comes_and_goes_without_an_event_lost_or_a_chunk_broken(kind: str) -> None:
    streams, wrong = lost_events(kind, CYCLES)
    assert streams >= 5
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["downstream", "upstream"])
def test_bulk_passes_every_harmless_toxic(stream: str) -> None:
    """More than any stage may hold, at once: backpressure must let go again."""
    payload = bytes(range(256)) * (4 << 12)
    with server(echo) as port, proxy_to(port) as proxy:
        for kind, attributes in HARMLESS.items():
            if kind == "timeout" or (kind.startswith("sse_") and stream == "upstream"):
                continue
            fast = {"bandwidth": {"rate": 200_000}, "slicer": {"average_size": 20_000}}.get(kind, attributes)
            proxy.add(kind, stream=stream, **fast)
            with proxy.connect() as sock:

                def send(to: socket.socket = sock) -> None:
                    to.sendall(payload)
                    to.shutdown(socket.SHUT_WR)

                sender = threading.Thread(target=send)
                sender.start()
                assert receive_all(sock) == payload, kind
                sender.join()
            proxy.remove()
