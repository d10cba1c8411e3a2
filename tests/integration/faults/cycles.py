"""Adding and removing a toxic again and again under load: is a byte lost or moved? Used by bench/ too."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from typing import Any

from proxy_rig import RunningProxy, proxy_to, receive_all, server, sse_response

HARMLESS: dict[str, dict[str, Any]] = {
    "latency": {"latency": 3, "jitter": 2},
    "bandwidth": {"rate": 4000},
    "slow_close": {"delay": 5},
    "timeout": {},
    "reset_peer": {"timeout": 3_600_000},
    "slicer": {"average_size": 100, "size_variation": 50, "delay": 10},
    "limit_data": {"bytes": 1 << 40},
    "idle_cut": {"idle": 3_600_000},
    "sse_stall": {"after_events": 1},
    "sse_coalesce": {"events": 5},
    "sse_first_token": {"delay_ms": 5},
    "sse_split": {"gap_ms": 1, "anywhere": True},
    "sse_reorder": {"at_event": 10_000_000},
}
"""Every toxic that may change when bytes come and how they are cut, but not the bytes."""
_NUMBERS = 200


def count_up(stop: threading.Event, sent: list[int]) -> Any:
    """A server that sends 0, 1, 2, … as 32-bit numbers until told to stop."""

    def handle(sock: socket.socket) -> None:
        for begin in itertools.count(0, _NUMBERS):
            if stop.is_set():
                return
            sock.sendall(struct.pack(f"!{_NUMBERS}I", *range(begin, begin + _NUMBERS)))
            sent[0] = begin + _NUMBERS
            time.sleep(0.0005)

    return handle


def cycle(proxy: RunningProxy, kind: str, times: int) -> None:
    """Through keep-alive would be faster; each call is a connection of its own, as clients make them."""
    for _ in range(times):
        proxy.add(kind, **HARMLESS[kind])
        proxy.remove()


def lost_bytes_of_numbers(kind: str, times: int) -> tuple[int, bool]:
    """(numbers received, all of them right) of a stream of numbers during so many cycles."""
    stop, sent = threading.Event(), [0]
    with server(count_up(stop, sent)) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(receive_all(sock)))
        reader.start()
        try:
            cycle(proxy, kind, times)
        finally:
            stop.set()
            reader.join(30)
        return sent[0], received[0] == struct.pack(f"!{sent[0]}I", *range(sent[0]))


def lost_events(kind: str, times: int) -> tuple[int, int]:
    """(streams read, streams whose events were not those sent) of SSE responses during so many cycles."""
    pieces = sse_response(30)
    whole = _body(b"".join(pieces))
    stop = threading.Event()

    def serve(sock: socket.socket) -> None:
        while sock.recv(1000):
            for piece in pieces:
                sock.sendall(piece)
                time.sleep(0.0005)

    with server(serve) as port, proxy_to(port) as proxy:
        bodies: list[bytes] = []

        def read() -> None:
            with proxy.connect() as sock:
                while not stop.is_set():
                    sock.sendall(b"GET /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n")
                    data = b""
                    while not data.endswith(b"\r\n0\r\n\r\n"):
                        piece = sock.recv(1 << 16)
                        assert piece, "closed in mid-stream"
                        data += piece
                    bodies.append(_body(data))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            cycle(proxy, kind, times)
        finally:
            stop.set()
            for reader in readers:
                reader.join(30)
        return len(bodies), sum(body != whole for body in bodies)


def _body(response: bytes) -> bytes:
    """The body of a chunked response; ValueError when the framing is broken."""
    data, body = response.partition(b"\r\n\r\n")[2], b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        if data[size : size + 2] != b"\r\n":
            raise ValueError(f"chunk of {size} bytes has no end: {data[:80]!r}")
        if not size:
            return body
        body, data = body + data[:size], data[size + 2 :]
