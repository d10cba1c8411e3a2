"""The proxy without a toxic: bytes, half-close, backpressure, failures of the upstream, its API."""

from __future__ import annotations

import os
import socket
import threading
import time

import psutil
import pytest
from proxy_rig import echo, proxy_to, receive, receive_all, round_trip_ms, server


@pytest.mark.slow
def test_every_byte_comes_through_both_ways_and_half_close_is_kept() -> None:
    payload = os.urandom(4 << 20)
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:

        def send() -> None:
            sock.sendall(payload)
            sock.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        assert receive_all(sock) == payload  # ends only when the server has seen our half-close
        sender.join()
        figures = proxy.call("GET", "/proxies/target")[1]["stats"]
        assert figures["upstream_bytes"] == figures["downstream_bytes"] == len(payload)


@pytest.mark.slow
def test_the_idle_proxy_costs_little() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        with socket.create_connection(("127.0.0.1", port)) as direct, proxy.connect() as through:
            direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs = [(round_trip_ms(direct), round_trip_ms(through)) for _ in range(500)]
        added_ms = min(b for _, b in pairs) - min(a for a, _ in pairs)
        assert added_ms < 1.0  # both ways; the figure itself is bench/'s to print, on a quiet machine


@pytest.mark.slow
def test_a_slow_reader_stops_the_sender_and_not_the_memory() -> None:
    sent = [0]

    def flood(sock: socket.socket) -> None:
        sock.settimeout(2)
        block = bytes(1 << 16)
        try:
            while sent[0] < 200 << 20:
                sent[0] += sock.send(block)
        except TimeoutError:
            pass

    with server(flood) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        sock.recv(1)
        memory = psutil.Process(proxy.process.pid)
        before = memory.memory_info().rss
        time.sleep(1.0)
        assert sent[0] < 50 << 20
        assert memory.memory_info().rss - before < 20 << 20


def test_a_dead_upstream_looks_like_a_reset_and_not_like_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with proxy_to(port) as proxy:
        with pytest.raises(ConnectionResetError), proxy.connect() as sock:
            sock.recv(1)
        assert proxy.call("GET", "/proxies/target")[1]["stats"]["upstream_failures"] == 1


def test_a_reset_by_the_upstream_reaches_the_client_as_a_reset() -> None:
    def reset_after_one_byte(sock: socket.socket) -> None:
        sock.sendall(b"x")
        sock.recv(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()

    with server(reset_after_one_byte) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        assert receive(sock, 1) == b"x"
        sock.sendall(b"y")
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_the_api_refuses_with_reasons() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        toxics = "/proxies/target/toxics"
        assert proxy.call("GET", "/version")[0] == 200
        assert proxy.call("GET", "/nowhere")[0] == 404
        assert proxy.call("PUT", "/proxies")[0] == 405
        status, answer = proxy.call("POST", toxics, {"type": "latencey", "attributes": {}})
        assert (status, "did you mean 'latency'" in answer["error"]) == (400, True)
        status, answer = proxy.call(
            "POST", toxics, {"type": "latency", "attributes": {"latency": 1, "jitter": 2}}
        )
        assert status == 400
        assert "bytes cannot come early" in answer["error"]
        assert proxy.call("POST", toxics, {"type": "latency", "name": "a"})[0] == 200
        assert proxy.call("POST", toxics, {"type": "latency", "name": "a"})[0] == 409
        assert proxy.call("POST", f"{toxics}/a", {"attributes": {"latency": 5}})[1]["attributes"] == {
            "latency": 5.0,
            "jitter": 0.0,
            "distribution": "uniform",
        }
        assert proxy.call("POST", "/reset")[0] == 204
        assert proxy.call("GET", toxics) == (200, [])
        made = proxy.call("POST", "/proxies", {"name": "second", "upstream": f"127.0.0.1:{port}"})
        assert made[0] == 201
        assert proxy.call("DELETE", "/proxies/second")[0] == 204
        assert list(proxy.call("GET", "/proxies")[1]) == ["target"]


def test_two_proxies_do_not_share_a_control_socket() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        import subprocess
        import sys

        again = subprocess.run(
            [sys.executable, "-m", "chaosflow.faults.proxy", "--control", proxy.control],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert again.returncode == 2
        assert "exists already" in again.stderr


def test_it_ends_without_a_word_while_a_client_of_its_api_stays_connected() -> None:
    with server(echo) as port, proxy_to(port) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.control)
        client.sendall(b"GET /version HTTP/1.1\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        proxy.process.terminate()
        assert proxy.process.wait(10) == 0  # what it wrote is looked at by proxy_to
