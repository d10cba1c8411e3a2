"""timeout, slow_close, slicer, limit_data, idle_cut and down, on real connections."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from proxy_rig import RunningProxy, echo, median, proxy_to, receive, receive_all, round_trip_ms, server


def _flow(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"token ")
        time.sleep(0.005)


@pytest.mark.slow
def test_timeout_fires_on_a_busy_stream() -> None:
    """Toxiproxy's source: each chunk arms the timer again, so that it never fires while tokens flow."""
    with server(_flow) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        receive(sock, 12)
        proxy.add("timeout", timeout=300)
        begin = time.monotonic()
        receive_all(sock)
        assert 0.2 <= time.monotonic() - begin < 3
        assert proxy.stats()["timeouts"] == 1
        assert proxy.stats()["bytes"] == 0
        deadline = time.monotonic() + 5
        while proxy.call("GET", "/proxies/target")[1]["stats"]["open"]:
            assert time.monotonic() < deadline, "the server's side was not closed"
            time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["downstream", "upstream"])
def test_a_timeout_of_zero_keeps_every_byte_until_it_is_removed(stream: str) -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("timeout", stream=stream)
        payload = bytes(range(256)) * 4000
        sender = threading.Thread(target=lambda: (sock.sendall(payload), sock.shutdown(socket.SHUT_WR)))
        sender.start()
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(20)
        proxy.remove()
        assert receive_all(sock) == payload
        sender.join()


@pytest.mark.slow
def test_timeout_ends_with_its_removal() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("timeout", timeout=200)
        proxy.remove()
        time.sleep(0.3)
        round_trip_ms(sock)
        proxy.add("timeout", timeout=60_000)
        proxy.call("POST", "/proxies/target/toxics/t", {"attributes": {"timeout": 50}})
        assert receive_all(sock) == b""


@pytest.mark.slow
def test_slow_close_delays_the_close_and_no_byte() -> None:
    def send_and_close(sock: socket.socket) -> None:
        sock.sendall(b"last words")

    with server(send_and_close) as port, proxy_to(port) as proxy:
        proxy.add("slow_close", delay=800)
        with proxy.connect() as sock:
            begin = time.monotonic()
            assert receive(sock, 10) == b"last words"
            early = time.monotonic() - begin
            assert receive_all(sock) == b""
            assert early < 0.8 <= time.monotonic() - begin < 5
        assert proxy.stats()["closes"] == 1


@pytest.mark.slow
def test_slow_close_removed_closes_at_once() -> None:
    with server(lambda sock: sock.sendall(b"x")) as port, proxy_to(port) as proxy:
        proxy.add("slow_close", delay=60_000)
        with proxy.connect() as sock:
            receive(sock, 1)
            while not proxy.stats().get("closes"):
                time.sleep(0.005)
            proxy.remove()
            assert receive_all(sock) == b""


@pytest.mark.slow
def test_slicer_cuts_into_small_pieces_with_pauses() -> None:
    payload = bytes(range(250))

    def send(sock: socket.socket) -> None:
        sock.sendall(payload)

    with server(send) as port, proxy_to(port) as proxy:
        proxy.add("slicer", average_size=10, size_variation=5, delay=5000)
        with proxy.connect() as sock:
            begin = time.monotonic()
            sizes = []
            got = b""
            while data := sock.recv(1 << 16):
                sizes.append(len(data))
                got += data
        assert got == payload
        assert time.monotonic() - begin >= 0.06
        assert len(sizes) >= 8
        stats = proxy.stats()
        assert 15 <= stats["pieces"] <= 51


def test_slicer_without_pauses_loses_nothing() -> None:
    payload = bytes(range(256)) * 200
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        proxy.add("slicer", average_size=100, size_variation=99)
        sock.sendall(payload)
        sock.shutdown(socket.SHUT_WR)
        assert receive_all(sock) == payload


def test_slicer_refuses_pieces_of_nothing() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        body = {"type": "slicer", "attributes": {"average_size": 10, "size_variation": 10}}
        status, answer = proxy.call("POST", "/proxies/target/toxics", body)
        assert status == 400
        assert "at least one byte" in answer["error"]


@pytest.mark.parametrize("limit", [0, 1, 100, 4096])
def test_limit_data_passes_exactly_the_limit(limit: int) -> None:
    with server(lambda sock: sock.sendall(bytes(100_000))) as port, proxy_to(port) as proxy:
        proxy.add("limit_data", bytes=limit)
        with proxy.connect() as sock:
            assert len(receive_all(sock)) == limit
        assert proxy.stats()["cuts"] == 1


def test_limit_data_counts_each_connection_alone_and_lets_go() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.add("limit_data", bytes=10)
        for _ in range(2):
            with proxy.connect() as sock:
                round_trip_ms(sock, b"12345")
                sock.sendall(b"1234567")
                assert receive_all(sock) == b"12345"
        with proxy.connect() as sock:
            round_trip_ms(sock, b"12345")
            proxy.remove()
            round_trip_ms(sock, b"123456789")


@pytest.mark.slow
def test_an_idle_connection_is_cut_and_a_busy_one_is_not() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.add("idle_cut", idle=300)
        with proxy.connect() as busy, proxy.connect() as idle:
            round_trip_ms(idle)
            begin = time.monotonic()
            for _ in range(20):
                round_trip_ms(busy)
                time.sleep(0.03)
            idle.settimeout(1)
            assert receive_all(idle) == b""
            assert time.monotonic() - begin >= 0.3
            round_trip_ms(busy)
        assert proxy.stats()["cuts"] == 1


@pytest.mark.slow
def test_an_idle_connection_is_reset_where_asked() -> None:
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as sock:
        round_trip_ms(sock)
        proxy.add("idle_cut", idle=50, reset=True)
        with pytest.raises(ConnectionResetError):
            receive_all(sock)


@pytest.mark.slow
def test_down_refuses_resets_and_comes_back_on_the_same_port() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        for _ in range(3):
            with proxy.connect() as sock:
                round_trip_ms(sock)
                status, answer = proxy.call("POST", "/proxies/target", {"enabled": False})
                assert (status, answer["enabled"]) == (200, False)
                assert answer["stats"]["reset_by_down"] == 1
                assert answer["stats"]["refuses"]
                with pytest.raises(ConnectionResetError):
                    receive_all(sock)
            with pytest.raises(ConnectionRefusedError):
                proxy.connect()
            assert proxy.call("PATCH", "/proxies/target", {"enabled": True})[1]["enabled"]
            with proxy.connect() as sock:
                round_trip_ms(sock)


def test_while_down_nobody_else_is_given_the_port() -> None:
    with server(echo) as port, proxy_to(port) as proxy:
        proxy.call("POST", "/proxies/target", {"enabled": False})
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(proxy.address)
        proxy.call("POST", "/reset")
        with proxy.connect() as sock:
            round_trip_ms(sock)


@pytest.mark.slow
def test_toxicity_zero_breaks_nothing_whatever_the_toxic() -> None:
    """toxiproxy 603: a toxic with toxicity 0 still broke connections."""
    harsh = {
        "reset_peer": {}, "timeout": {"timeout": 1}, "limit_data": {"bytes": 0}, "idle_cut": {"idle": 1},
        "slicer": {"average_size": 1, "delay": 100_000}, "latency": {"latency": 5000}, "bandwidth": {"rate": 0.001},
    }  # fmt: skip
    with server(echo) as port, proxy_to(port) as proxy, proxy.connect() as open_before:
        for kind, attributes in harsh.items():
            for stream in ("downstream", "upstream"):
                proxy.add(kind, name=f"{kind}.{stream}", stream=stream, toxicity=0, **attributes)
        time.sleep(0.05)
        assert round_trip_ms(open_before, bytes(1000)) < 1000
        with proxy.connect() as sock:
            assert round_trip_ms(sock, bytes(1000)) < 1000
        assert {
            toxic["stats"]["connections"] for toxic in proxy.call("GET", "/proxies/target/toxics")[1]
        } == {0}


def _breaks(proxy: RunningProxy) -> bool:
    try:
        with proxy.connect() as sock:
            for _ in range(20):
                round_trip_ms(sock)
                time.sleep(0.03)
    except (ConnectionError, AssertionError):
        return True
    return False


@pytest.mark.slow
def test_recovery_after_every_toxic_that_breaks_connections() -> None:
    """toxiproxy 465: no recovery after reset_peer."""
    breaking = {
        "reset_peer": {}, "timeout": {"timeout": 20}, "limit_data": {"bytes": 1}, "idle_cut": {"idle": 20},
    }  # fmt: skip
    with server(echo) as port, proxy_to(port) as proxy:
        with proxy.connect() as sock:
            before = median([round_trip_ms(sock) for _ in range(20)])
        for kind, attributes in breaking.items():
            proxy.add(kind, **attributes)
            assert all(_breaks(proxy) for _ in range(3)), kind
            proxy.remove()
            with proxy.connect() as sock:
                assert median([round_trip_ms(sock) for _ in range(20)]) < 20 * before + 5
