"""No delay of our own making stands between the model and the wire."""

from __future__ import annotations

import json
import socket
import time

import pytest
from engine_process import MESSAGES, RunningEngine, running_engine


@pytest.mark.slow
def test_no_delayed_ack_stands_between_role_chunk_and_first_token() -> None:
    """On a connection in use the client delays its ACKs by 40 ms, which Nagle would wait for (RFC 896, tcp(7))."""
    with running_engine() as engine, socket.create_connection(("127.0.0.1", engine.port)) as client:
        first_token_s = [_stream_once(engine, client) for _ in range(8)]
    assert min(first_token_s[1:]) < 0.03, first_token_s


def _stream_once(engine: RunningEngine, client: socket.socket) -> float:
    fields = {"model": engine.model, "messages": MESSAGES, "stream": True, "max_tokens": 4}
    body = json.dumps(fields).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    began, first, seen = time.perf_counter(), 0.0, b""
    client.sendall(head.encode() + body)
    while b"[DONE]" not in seen or not seen.endswith(b"0\r\n\r\n"):
        seen += client.recv(65536)
        if not first and seen.count(b"data: ") >= 2:
            first = time.perf_counter() - began
    return first
