"""The toxics on real connections; named after the failures of earlier proxies that they must not repeat."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest
from proxy_rig import (
    RunningProxy,
    content_event,
    echo,
    proxy_to,
    receive,
    receive_all,
    round_trip_ms,
    server,
    sse_response,
)


@pytest.mark.slow
def test_latency_is_what_was_asked() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        before = min(round_trip_ms(sock) for _ in range(50))  # the least: a busy machine delays the others
        proxy.add("latency", latency=20)
        after = min(round_trip_ms(sock) for _ in range(50))
        assert after - before == pytest.approx(20, abs=3)
        stats = proxy.stats()
        assert stats["delayed"] == 50
        assert 19.9 <= stats["delay_mean_ms"] < 40


def test_a_pooled_connection_is_toxified_and_freed_again() -> None:
    """toxiproxy 148: connections open before the toxic came were not acted on."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as pooled:
        assert min(round_trip_ms(pooled) for _ in range(5)) < 50
        proxy.add("latency", latency=50)
        assert round_trip_ms(pooled) >= 50
        proxy.remove()
        assert min(round_trip_ms(pooled) for _ in range(5)) < 50


def test_removing_latency_does_not_flush_what_is_delayed() -> None:
    """Toxiproxy's source: removal sends queued bytes at once, and later bytes may overtake none here."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("latency", latency=200)
        begin = time.monotonic()
        sock.sendall(b"early")
        while not proxy.stats()["held_bytes"]:
            time.sleep(0.001)
        proxy.remove()
        sock.sendall(b"late")
        assert receive(sock, 5) == b"early"
        assert time.monotonic() - begin >= 0.2
        assert receive(sock, 4) == b"late"


@pytest.mark.slow
def test_toxics_come_and_go_under_load_without_a_byte_lost_or_moved() -> None:
    total = 400_000

    def count_up(sock: socket.socket) -> None:
        for begin in range(0, total, 200):
            sock.sendall(struct.pack("!200I", *range(begin, begin + 200)))
            time.sleep(0.0005)

    with server(count_up) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(receive_all(sock)))
        reader.start()
        rounds = 0
        while reader.is_alive():
            proxy.add("latency", name="a", latency=5, jitter=5)
            proxy.add("bandwidth", name="b", rate=2000)
            proxy.add("sse_stall", name="c", after_events=1)
            proxy.remove("a")
            proxy.add("latency", name="d", latency=3)
            proxy.remove("b")
            proxy.remove("c")
            proxy.remove("d")
            rounds += 1
        reader.join()
        assert rounds >= 20
        assert received[0] == struct.pack(f"!{total}I", *range(total))


def test_toxicity_zero_touches_nothing() -> None:
    """toxiproxy 603: a toxic with toxicity 0 still broke connections."""
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.add("reset_peer", toxicity=0, timeout=0)
        with proxy.connect() as sock:
            assert round_trip_ms(sock) < 1000
        assert proxy.stats()["connections"] == 0


@pytest.mark.slow
def test_toxicity_is_decided_per_connection() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.add("latency", toxicity=0.5, latency=150)
        slow = []
        for _ in range(24):
            with proxy.connect() as sock:
                first, second = round_trip_ms(sock), round_trip_ms(sock)
                assert (first >= 150) == (second >= 150)
                slow.append(first >= 150)
        assert 4 <= sum(slow) <= 20


def test_reset_peer_in_mid_stream_is_a_reset_at_both_ends_and_passes() -> None:
    """Toxiproxy's source: added in mid-stream it gives FIN; toxiproxy 465: no recovery afterwards."""
    seen: list[str] = []

    def stream(sock: socket.socket) -> None:
        try:
            while True:
                sock.sendall(b"token ")
                time.sleep(0.005)
        except ConnectionError as e:
            seen.append(type(e).__name__)

    with server(stream) as port, proxy_to(port) as proxy:
        with proxy.connect() as sock:
            receive(sock, 12)
            proxy.add("reset_peer", timeout=0)
            with pytest.raises(ConnectionResetError):
                receive_all(sock)
        with pytest.raises(ConnectionResetError), proxy.connect() as another:
            receive_all(another)
        assert proxy.stats()["resets"] == 2
        proxy.remove()
        with proxy.connect() as sock:
            assert receive(sock, 60) == b"token " * 10
    assert seen[0] in ("ConnectionResetError", "BrokenPipeError")


def _trips_until_reset(sock: socket.socket) -> int:
    for trips in range(1_000_000):
        try:
            round_trip_ms(sock)
        except ConnectionResetError:
            return trips
    raise AssertionError("never reset")


@pytest.mark.slow
def test_reset_peer_waits_its_time_while_bytes_flow() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("reset_peer", timeout=300)
        begin = time.monotonic()
        trips = _trips_until_reset(sock)
        assert 0.25 <= time.monotonic() - begin < 3
        assert trips > 10


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_jitter_keeps_its_spread_on_a_dense_stream(distribution: str) -> None:
    """An order-preserving rate is no answer: it turns 20 ± 10 ms into 28 ± 0.9."""
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("latency", latency=20, jitter=9, distribution=distribution)
        reader = threading.Thread(target=receive, args=(sock, 2000))
        reader.start()
        for _ in range(2000):
            sock.sendall(b"x")
            time.sleep(0.001)
        reader.join()
        stats = proxy.stats()
        assert 18 < stats["delay_mean_ms"] < 40
        assert stats["delay_sd_ms"] > 0.7 * stats["requested_sd_ms"]


@pytest.mark.slow
def test_two_latencies_add() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("latency", name="a", latency=20)
        proxy.add("latency", name="b", latency=30)
        proxy.add("latency", name="c", latency=25, stream="upstream")
        assert min(round_trip_ms(sock) for _ in range(11)) == pytest.approx(75, abs=8)


@pytest.mark.slow
def test_bandwidth_is_a_thin_link() -> None:
    def send(sock: socket.socket) -> None:
        sock.sendall(bytes(100_000))

    with server(send) as port, proxy_to(port) as proxy:
        proxy.add("bandwidth", rate=200)
        begin = time.monotonic()
        with proxy.connect() as sock:
            assert len(receive_all(sock)) == 100_000
        assert 0.4 < time.monotonic() - begin < 2
        assert 50 < proxy.stats()["achieved_rate"] < 240


def _events_in(sock: socket.socket, seconds: float) -> bytes:
    """What arrives until nothing has for ``seconds``."""
    sock.settimeout(seconds)
    got = bytearray()
    try:
        while data := sock.recv(1 << 16):
            got += data
    except TimeoutError:
        pass
    sock.settimeout(20)
    return bytes(got)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_stall_stands_at_a_token_boundary_and_loses_nothing(step: int) -> None:
    response = b"".join(sse_response(6))

    def stream(sock: socket.socket) -> None:
        sock.recv(100)
        pieces = [response[i : i + step] for i in range(0, len(response), step)] if step else sse_response(6)
        for piece in pieces:
            sock.sendall(piece)
        sock.recv(1)

    with server(stream) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("sse_stall", after_events=3)
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        head = _events_in(sock, 0.3)
        assert head.count(b'"content": "t') == 3
        assert head.rstrip(b"\r\n").endswith(content_event("t2 ").rstrip(b"\n"))
        assert proxy.stats()["holding"] == 1
        proxy.remove()
        assert head + receive(sock, len(response) - len(head)) == response


@pytest.mark.slow
def test_each_response_of_a_kept_connection_stalls_once() -> None:
    response = b"".join(sse_response(4))

    def serve(sock: socket.socket) -> None:
        while sock.recv(100):
            sock.sendall(response)

    with server(serve) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("sse_stall", after_events=2, stall_ms=150)
        for _ in range(3):
            begin = time.monotonic()
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert receive(sock, len(response)) == response
            assert 0.14 <= time.monotonic() - begin < 3
        stats = proxy.stats()
        assert (stats["acted"], stats["holding"], stats["events"]) == (3, 0, 12)
        assert 0.42 < stats["stalled_s"] < 3


@pytest.mark.slow
def test_a_stall_begins_on_a_stream_already_open() -> None:
    def stream(sock: socket.socket) -> None:
        for piece in sse_response(100):
            sock.sendall(piece)
            time.sleep(0.005)
        sock.recv(1)

    with server(stream) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        whole = b"".join(sse_response(100))
        head = receive(sock, 1000)
        proxy.add("sse_stall", after_events=5)
        head += _events_in(sock, 0.3)
        assert 5 <= head.count(b'"content": "t') < 100
        proxy.remove()
        assert head + receive(sock, len(whole) - len(head)) == whole


def test_the_end_of_a_delayed_stream_comes_behind_its_bytes() -> None:
    def send_and_close(sock: socket.socket) -> None:
        sock.sendall(b"last words")

    with server(send_and_close) as port, proxy_to(port) as proxy:
        proxy.add("latency", latency=60)
        begin = time.monotonic()
        with proxy.connect() as sock:
            assert receive_all(sock) == b"last words"
        assert time.monotonic() - begin >= 0.06


@pytest.mark.slow
def test_latency_of_many_streams_at_once_is_accurate() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        socks = [proxy.connect() for _ in range(32)]
        proxy.add("latency", latency=30)
        for _ in range(20):
            for sock in socks:
                sock.sendall(b"x" * 50)
            for sock in socks:
                receive(sock, 50)
        for sock in socks:
            sock.close()
        stats = proxy.stats()
        assert stats["delayed"] >= 600
        assert 29.9 <= stats["delay_mean_ms"] < 60


def test_sigterm_ends_the_proxy_and_removes_its_socket(tmp_path: object) -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        _ended(proxy)


def _ended(proxy: RunningProxy) -> None:
    from pathlib import Path

    with proxy.connect() as sock:
        round_trip_ms(sock)
        proxy.process.terminate()
        assert proxy.process.wait(5) == 0
        assert not Path(proxy.control).exists()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
