"""A real proxy process, real servers behind it, and clients, for the tests of the toxics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaosflow.faults.proxy import client


@dataclass
class RunningProxy:
    """``address`` is where clients connect; ``control`` the API's socket."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    control: str

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return asyncio.run(client.request(self.control, method, path, body))

    def add(self, kind: str, name: str = "t", stream: str = "downstream", toxicity: float = 1.0, **attributes: Any) -> None:  # fmt: skip
        body = {
            "type": kind,
            "name": name,
            "stream": stream,
            "toxicity": toxicity,
            "attributes": attributes,
        }
        status, answer = self.call("POST", "/proxies/target/toxics", body)
        assert status == 200, answer

    def remove(self, name: str = "t") -> None:
        status, answer = self.call("DELETE", f"/proxies/target/toxics/{name}")
        assert status == 204, answer

    def stats(self, name: str = "t") -> dict[str, Any]:
        status, answer = self.call("GET", f"/proxies/target/toxics/{name}")
        assert status == 200, answer
        return answer["stats"]

    def connect(self) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


@contextlib.contextmanager
def proxy_to(port: int, *options: str) -> Iterator[RunningProxy]:
    with tempfile.TemporaryDirectory(prefix="cfproxy-") as folder:
        control = f"{folder}/control"
        command = [sys.executable, "-m", "chaosflow.faults.proxy", "--control", control, "--seed", "7"]
        command += ["--upstream", f"127.0.0.1:{port}", *options]
        complaints = Path(folder) / "stderr"
        with (
            complaints.open("w") as stderr,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
        ):
            assert process.stdout
            try:
                ready = json.loads(process.stdout.readline())
                host, _, listening = ready["listening"].rpartition(":")
                yield RunningProxy(process, (host, int(listening)), control)
            finally:
                process.terminate()
                process.wait(10)
        assert (said := complaints.read_text()) == "", (
            said
        )  # an exception in a callback ends nothing, and would go unseen


Handler = Callable[[socket.socket], None]


@contextlib.contextmanager
def server(handle: Handler, port: int = 0) -> Iterator[int]:
    """A TCP server, on a free port unless one is given; each connection is handled in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    threads: list[threading.Thread] = []
    stop = threading.Event()

    def one(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(30)
            handle(sock)

    def accept() -> None:
        while not stop.is_set():
            if select.select([listener], [], [], 0.05)[0]:
                thread = threading.Thread(target=one, args=(listener.accept()[0],))
                thread.start()
                threads.append(thread)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        acceptor.join()
        listener.close()
        for thread in threads:
            thread.join()


def echo(sock: socket.socket) -> None:
    """Send back what comes; close the sending side when the client does."""
    while data := sock.recv(1 << 16):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def receive(sock: socket.socket, size: int) -> bytes:
    """Exactly ``size`` bytes."""
    parts = bytearray()
    while len(parts) < size:
        data = sock.recv(min(1 << 18, size - len(parts)))
        assert data, f"the connection ended after {len(parts)} of {size} bytes"
        parts += data
    return bytes(parts)


def receive_all(sock: socket.socket) -> bytes:
    parts = bytearray()
    while data := sock.recv(1 << 18):
        parts += data
    return bytes(parts)


def round_trip_ms(sock: socket.socket, payload: bytes = b"x") -> float:
    begin = time.monotonic()
    sock.sendall(payload)
    assert receive(sock, len(payload)) == payload
    return (time.monotonic() - begin) * 1000


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def content_event(text: str) -> bytes:
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def sse_response(tokens: int) -> list[bytes]:
    """An OpenAI-style streamed response in pieces, HTTP-chunked: head, role, tokens, finish, usage, [DONE]."""
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"completion_tokens":1}}\n\n'
    events = [role, *(content_event(f"t{i} ") for i in range(tokens)), finish, usage, b"data: [DONE]\n\n"]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
    return [head, *chunks, b"0\r\n\r\n"]


CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def streaming(tokens: int, gap_s: float = 0.001, pieces: list[bytes] | None = None) -> Handler:
    """A server that answers every request with a stream of tokens, until the client leaves."""

    def handle(sock: socket.socket) -> None:
        while sock.recv(1 << 16):
            for piece in pieces or sse_response(tokens):
                sock.sendall(piece)
                time.sleep(gap_s)

    return handle


def ask(proxy: RunningProxy, request: bytes = CHAT) -> tuple[bytes, str]:
    """All bytes of the answer to one request, and how it ended: complete, closed or reset."""
    got = b""
    with proxy.connect() as sock:
        try:
            sock.sendall(request)
            while not _complete(got):
                data = sock.recv(1 << 16)
                if not data:
                    return got, "closed"
                got += data
        except ConnectionError:
            return got, "reset"
    return got, "complete"


def _complete(response: bytes) -> bool:
    head, blank, body = response.partition(b"\r\n\r\n")
    if not blank:
        return False
    if b"Content-Length: " in head:
        return len(body) >= int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n") and (body == b"0\r\n\r\n" or body.endswith(b"\r\n0\r\n\r\n"))
