"""The streaming client against a real server: every outcome, connections, stamps."""

from __future__ import annotations

import socket
from collections.abc import Iterator

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


@pytest.mark.parametrize(
    ("case", "outcome", "events"),
    [
        ("good", "ok", 4),
        ("whole", "ok", 4),
        ("bytewise", "ok", 4),
        ("no_done", "ok", 4),
        ("closes", "ok", 4),
        ("only_done", "truncated", 0),
        ("truncated", "truncated", 4),
        ("cut", "truncated", 4),
        ("reset", "reset", 4),
        ("error_event", "error_event", 4),
        ("busy", "http", 0),
        ("garbage", "unparseable", 4),
    ],
)
def test_outcome_of_a_stream(
    driver: Driver, server: ScriptedServer, case: str, outcome: str, events: int
) -> None:
    """locust HEAD: a reset in mid-stream ended normally; inference-perf 655; guidellm 743; vllm PR 54708."""
    (row,) = driver.fetch(server.url(case))
    assert (row["outcome"], len(row["event_us"])) == (outcome, events), row["error"]
    if outcome == "ok" and case != "no_done":
        assert (row["tokens"], row["tokens_by_usage"], row["saw_done"]) == (4, True, True)


def test_a_stream_longer_than_its_deadline_has_failed_and_keeps_what_came(
    driver: Driver, server: ScriptedServer
) -> None:
    (row,) = driver.fetch(server.url("hang"), deadline_s=0.3)
    assert (row["outcome"], len(row["event_us"])) == ("deadline", 4)
    assert 290_000 <= row["end_us"] < 2_000_000
    (mute,) = driver.fetch(server.url("mute"), deadline_s=0.2)
    assert (mute["outcome"], mute["event_us"], mute["headers_us"]) == ("deadline", [], None)


def test_a_request_that_outlives_the_run_is_cancelled(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("hang"), kill_after_s=0.15)
    assert row["outcome"] == "cancelled"


def test_nobody_listens(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (row,) = driver.fetch(f"http://127.0.0.1:{port}/v1")
    assert (row["outcome"], row["sent_us"], row["end_us"] is None) == ("connect", None, False)
    assert "refused" in row["error"].lower()


def test_connections_are_kept_and_reused(driver: Driver, server: ScriptedServer) -> None:
    before = server.connections
    rows = driver.fetch(server.url("good"), repeat=5)
    assert [r["outcome"] for r in rows] == ["ok"] * 5
    assert server.connections == before + 1


def test_a_server_that_closes_after_each_stream_is_normal(driver: Driver, server: ScriptedServer) -> None:
    before = server.connections
    rows = driver.fetch(server.url("closes"), repeat=5)
    assert [r["outcome"] for r in rows] == ["ok"] * 5
    assert server.connections == before + 5


def test_a_connection_that_went_stale_is_retried_once(driver: Driver, server: ScriptedServer) -> None:
    for pause_s in (0.0, 0.019, 0.021, 0.05):
        rows = driver.fetch(server.url("stale"), repeat=4, pause_s=pause_s)
        assert [r["outcome"] for r in rows] == ["ok"] * 4


def test_times_are_in_order_and_stamped_by_the_kernel(driver: Driver, server: ScriptedServer) -> None:
    """guidellm 216: no negative times; vllm 27485: the role chunk is no token."""
    (row,) = driver.fetch(server.url("good"))
    times = [row[k] for k in ("sched_us", "fire_us", "sent_us", "headers_us")]
    times += [*row["event_us"], row["end_us"]]
    assert times == sorted(times)
    assert row["event_us"][0] - row["headers_us"] > 5_000  # 10 ms after the role chunk
    assert row["user_stamps"] == 0
    assert not row["clock_jump"]


def test_events_of_one_segment_are_exact(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch(server.url("whole"))
    assert len(set(row["event_us"])) == 1
    assert "event_low_us" not in row


def test_the_proxy_is_connected_to_instead_of_the_target(driver: Driver, server: ScriptedServer) -> None:
    (row,) = driver.fetch("http://somewhere.invalid/good/v1", connect=["127.0.0.1", server.port])
    assert row["outcome"] == "ok"
