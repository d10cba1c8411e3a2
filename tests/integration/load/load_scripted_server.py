"""A small real server whose behaviour is named in the path: ``http://127.0.0.1:PORT/<case>/v1``."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}'
TOKEN = b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}'
FINISH = b'{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}'
END = b"0\r\n\r\n"


def chunk(*events: bytes) -> bytes:
    body = b"".join(b"data: %s\n\n" % e for e in events)
    return b"%x\r\n%s\r\n" % (len(body), body)


GOOD = (HEAD + chunk(ROLE), chunk(TOKEN), chunk(TOKEN), chunk(TOKEN), chunk(TOKEN))
CLOSE, KEEP = False, True


def _reset(peer: socket.socket) -> bool:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return CLOSE


class ScriptedServer:
    """A thread a connection. ``served`` counts requests, ``connections`` what was accepted."""

    def __init__(self, host: str = "127.0.0.1", unix: str = "", port: int = 0) -> None:
        """``unix``: listen on that path instead."""
        if unix:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(unix)
            self._listener.listen(256)
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family, backlog=256)
        self.host = f"[{host}]" if ":" in host else host
        self.port: int = 0 if unix else self._listener.getsockname()[1]
        self.connections = 0
        self.served = 0
        self.bodies: list[bytes] = []
        self._over = threading.Event()
        self._peers: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for peer in list(self._peers):
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def url(self, case: str) -> str:
        return f"http://{self.host}:{self.port}/{case}/v1"

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._peers.add(peer)
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        if peer.family != socket.AF_UNIX:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer, suppress(OSError):
            while (request := self._request(peer)) is not None:
                case, body = request
                self.served += 1
                self.bodies.append(body)
                behave: Callable[[socket.socket], bool] = getattr(self, f"case_{case}")
                if behave(peer) is CLOSE:
                    break
        self._peers.discard(peer)

    def _request(self, peer: socket.socket) -> tuple[str, bytes] | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            return "health", body
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += peer.recv(65536)
        return head.split(b"/")[1].decode(), body

    def _send(self, peer: socket.socket, *parts: bytes, pause_s: float = 0.01) -> None:
        for part in parts:
            peer.sendall(part)
            self._over.wait(pause_s)

    def case_good(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD, chunk(FINISH, USAGE, b"[DONE]") + END)
        return KEEP

    def case_closes(self, peer: socket.socket) -> bool:
        """Says keep-alive and closes (llama.cpp)."""
        self._send(peer, *GOOD, chunk(FINISH, USAGE, b"[DONE]") + END)
        return CLOSE

    def case_stale(self, peer: socket.socket) -> bool:
        """Closes an idle connection a moment later, unread data and all."""
        self._send(peer, *GOOD, chunk(FINISH, USAGE, b"[DONE]") + END)
        time.sleep(0.02)
        return _reset(peer)

    def case_whole(self, peer: socket.socket) -> bool:
        self._send(peer, b"".join(GOOD) + chunk(FINISH, USAGE, b"[DONE]") + END)
        return KEEP

    def case_bytewise(self, peer: socket.socket) -> bool:
        whole = b"".join(GOOD) + chunk(FINISH, USAGE, b"[DONE]") + END
        self._send(peer, *(whole[i : i + 1] for i in range(len(whole))), pause_s=0)
        return KEEP

    def case_no_done(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD, chunk(FINISH) + END)
        return KEEP

    def case_only_done(self, peer: socket.socket) -> bool:
        self._send(peer, HEAD + chunk(b"[DONE]") + END)
        return KEEP

    def case_truncated(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD, END)
        return KEEP

    def case_cut(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD)
        return CLOSE

    def case_reset(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD)
        return _reset(peer)

    def case_error_event(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD, chunk(b'{"error":{"message":"engine died"}}', b"[DONE]") + END)
        return KEEP

    def case_busy(self, peer: socket.socket) -> bool:
        self._send(peer, b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
        return KEEP

    def case_health(self, peer: socket.socket) -> bool:
        self._send(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        return KEEP

    def case_redirect(self, peer: socket.socket) -> bool:
        self._send(peer, b"HTTP/1.1 307 Go\r\nLocation: http://other.test/v1\r\nContent-Length: 0\r\n\r\n")
        return KEEP

    def case_moved(self, peer: socket.socket) -> bool:
        """To another path of the same server, as for a slash too few."""
        self._send(peer, b"HTTP/1.1 307 Go\r\nLocation: /good/v1/\r\nContent-Length: 2\r\n\r\n{}")
        return KEEP

    def case_moved_by_name(self, peer: socket.socket) -> bool:
        where = f"http://{self.host}:{self.port}/good/v1".encode()
        self._send(peer, b"HTTP/1.1 308 Go\r\nLocation: " + where + b"\r\nContent-Length: 0\r\n\r\n")
        return CLOSE

    def case_circle(self, peer: socket.socket) -> bool:
        self._send(peer, b"HTTP/1.1 307 Go\r\nLocation: /circle/v1\r\nContent-Length: 0\r\n\r\n")
        return KEEP

    def case_found(self, peer: socket.socket) -> bool:
        """302: what comes after it is a GET."""
        self._send(peer, b"HTTP/1.1 302 Go\r\nLocation: /good/v1\r\nContent-Length: 0\r\n\r\n")
        return KEEP

    def case_gzip(self, peer: socket.socket) -> bool:
        head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
        self._send(peer, head + chunk(TOKEN))
        return CLOSE

    def case_lies(self, peer: socket.socket) -> bool:
        """Says that 1,024 tokens came, and sends four."""
        usage = USAGE.replace(b":4,", b":1024,")
        self._send(peer, *GOOD, chunk(FINISH, usage, b"[DONE]") + END)
        return KEEP

    def case_slow(self, peer: socket.socket) -> bool:
        """Forty tokens, one each 50 ms."""
        self._send(peer, HEAD + chunk(ROLE))
        self._send(peer, *[chunk(TOKEN)] * 40, pause_s=0.05)
        self._send(peer, chunk(FINISH, b"[DONE]") + END)
        return KEEP

    def case_garbage(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD, chunk(b"{nonsense"))
        return CLOSE

    def case_hang(self, peer: socket.socket) -> bool:
        self._send(peer, *GOOD)
        self._over.wait(20)
        return CLOSE

    def case_mute(self, peer: socket.socket) -> bool:
        self._over.wait(20)
        return CLOSE


def main(host: str, port: str, bodies: str) -> None:
    """A server of its own, until its input ends; then the bodies that it was sent go to a file, one a line."""
    with ScriptedServer(host, port=int(port)) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    Path(bodies).write_bytes(b"\n".join(server.bodies))


if __name__ == "__main__":
    main(*sys.argv[1:])
