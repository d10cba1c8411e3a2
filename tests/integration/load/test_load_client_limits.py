"""What a client must name, refuse and bound: where it connects, how long it waits, when it hangs up."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_driver import Driver
from load_scripted_server import ScriptedServer


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("case", ["moved", "moved_by_name"])
def test_a_redirect_within_the_server_is_followed(driver: Driver, server: ScriptedServer, case: str) -> None:
    """307 and 308 (RFC 9110, 15.4): method and body stay."""
    server.bodies.clear()
    rows = driver.fetch(server.url(case), repeat=2)
    assert [(row["outcome"], row["status"], row["complete"]) for row in rows] == [("ok", 200, True)] * 2
    assert len(server.bodies) == 4
    assert server.bodies[0] == server.bodies[1]


def test_redirects_in_a_circle_end(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("circle"))
    assert (row["outcome"], row["status"]) == ("http", 307)
    assert "/circle/v1" in row["error"]


def test_a_redirect_that_forgets_the_method_is_a_failure(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("found"))
    assert (row["outcome"], row["status"]) == ("http", 302)


@pytest.mark.slow
def test_a_redirect_elsewhere_is_a_failure_that_names_where_to(
    driver: Driver, server: ScriptedServer
) -> None:
    (row,) = driver.fetch(server.url("redirect"))
    assert (row["outcome"], row["status"]) == ("http", 307)
    assert "http://other.test/v1" in row["error"]


def test_a_compressed_stream_is_refused_and_was_not_asked_for(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("gzip"))
    assert row["outcome"] == "unparseable"
    assert "compressed response (gzip)" in row["error"]


def test_usage_of_1024_with_four_tokens_is_not_complete(driver: Driver, server: ScriptedServer) -> None:
    """inference-perf 655: 10 of 1,024 tokens, then a clean close: success."""
    (row,) = driver.fetch(server.url("lies"))
    assert (row["outcome"], row["complete"]) == ("ok", False)
    (row,) = driver.fetch(server.url("good"))
    assert (row["outcome"], row["complete"]) == ("ok", True)
    (row,) = driver.fetch(server.url("good"), plan={"ignore_eos": True, "output_tokens": 9})
    assert (row["outcome"], row["complete"]) == ("ok", False)


def test_a_unix_socket(driver: Driver) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with ScriptedServer(unix=str(folder / "s")) as made:
            rows = driver.fetch(
                "http://whatever.test/good/v1", plan={"unix_socket": str(folder / "s")}, repeat=3
            )
            assert made.connections == 1
    finally:
        shutil.rmtree(folder)
    assert [r["outcome"] for r in rows] == ["ok"] * 3
    assert rows[0]["user_stamps"] > 0, "a Unix socket has no kernel stamps, and the record says so"


def test_ipv6_and_a_name_with_several_addresses(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(
        f"http://localhost:{server.port}/good/v1"
    )  # ::1 may come first: nobody listens there
    assert row["outcome"] == "ok"
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 on this machine")
    with ScriptedServer("::1") as made:
        (row,) = driver.fetch(made.url("good"))
    assert (row["outcome"], row["user_stamps"]) == ("ok", 0)


@pytest.mark.slow
def test_a_silent_stream_fails_at_its_idle_timeout(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("hang"), plan={"idle_timeout": 0.3})
    assert (row["outcome"], len(row["event_us"])) == ("deadline", 4)
    assert "silent for 0.3 s" in row["error"]
    assert row["end_us"] - row["event_us"][-1] >= 290_000
    (row,) = driver.fetch(server.url("slow"), plan={"idle_timeout": 1.0})
    assert (row["outcome"], len(row["event_us"])) == ("ok", 40), "a slow stream is not a silent one"


@pytest.mark.slow
def test_nobody_accepting_fails_at_the_connect_timeout(driver: Driver) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):  # fill its queue: further SYNs are dropped
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(full.getsockname())
            waiting.append(one)
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        (row,) = driver.fetch(url, plan={"connect_timeout": 0.4})
        for one in waiting:
            one.close()
    assert row["outcome"] == "connect"
    assert "no connection within 0.4 s" in row["error"]
    assert 390_000 <= row["end_us"] < 4_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aborts", "events"),
    [
        ({"share": 1, "after_tokens": 3}, range(3, 4)),
        ({"share": 1, "after": 0.5}, range(1, 40)),
        ({"share": 0.0}, range(40, 41)),
    ],
)
def test_clients_that_hang_up_in_mid_stream(
    driver: Driver, server: ScriptedServer, aborts: dict[str, Any], events: range
) -> None:
    before = server.connections
    (row,) = driver.fetch(server.url("slow"), plan={"aborts": aborts})
    assert len(row["event_us"]) in events
    if len(events) == 1 and events[0] == 40:
        assert row["outcome"] == "ok"
        return
    assert row["outcome"] == "cancelled"
    assert "hung up" in row["error"]
    driver.fetch(server.url("good"))
    assert server.connections > before, "its connection was closed, not reused"


def test_a_prompt_of_the_users_own_has_its_own_deadline(
    driver: Driver, server: ScriptedServer, tmp_path: Path
) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a", "deadline_s": 0.2}\n{"prompt": "b"}\n')
    rows = driver.fetch(server.url("slow"), plan={"prompts_file": str(prompts)}, repeat=2)
    assert [r["outcome"] for r in rows] == ["deadline", "ok"]
    assert "0.2 s" in rows[0]["error"]
