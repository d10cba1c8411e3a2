"""Where the load listens: read, tried, and within reach of those who are to come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError, UsageError
from chaosflow.core.listening import listen_address, require_free, split_address
from chaosflow.orchestrator.prepare import prepare

SCENARIO = """\
version: 1
name: places
target: {TARGET}
load:
  arrival: {kind: closed, users: 2}
  LOAD
phases: {baseline: 30s}
faults: [FAULT]
sla: {objectives: [error_rate <= 50%]}
"""
ENGINE, LOCAL = "engine: {backend: sim}", "url: http://127.0.0.1:9/v1"
LATENCY = "{name: slow, type: proxy.latency, duration: 5s, params: {delay_ms: 5}}"


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made.getsockname()[1]


def problems(tmp_path: Path, load: str, target: str = LOCAL, fault: str = "") -> list[str]:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.replace("TARGET", target).replace("LOAD", load).replace("FAULT", fault))
    try:
        prepare(path)
    except ScenarioError as e:
        return [str(p).removeprefix(f"{path}:") for p in e.problems]
    return []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10.0.0.5", ("10.0.0.5", 5557)),
        ("box:80", ("box", 80)),
        ("::1", ("::1", 5557)),
        ("[fe80::1]", ("fe80::1", 5557)),
        ("[::1]:7", ("::1", 7)),
    ],
)
def test_an_address_in_every_spelling(text: str, wanted: tuple[str, int]) -> None:
    assert split_address(text, "--master") == wanted


@pytest.mark.parametrize("text", ["", ":5", "host:abc", "host:99999", "host:0", "[]:5", "host:-1"])
def test_what_is_no_address_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match=r"--master .* is no address; write HOST or HOST:PORT"):
        split_address(text, "--master")


def test_every_interface() -> None:
    assert listen_address(":5600") == ("0.0.0.0", 5600)


def test_a_free_port_is_left_free(busy_port: int) -> None:
    with pytest.raises(UsageError, match=f"127.0.0.1:{busy_port}: Address already in use; another program"):
        require_free("127.0.0.1", busy_port, "listen")
    with pytest.raises(UsageError, match="name an address of this machine"):
        require_free("192.0.2.7", 5557, "listen")
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
    require_free("127.0.0.1", port, "listen")
    require_free("127.0.0.1", port, "listen")


def test_validate_names_ports_that_are_taken_with_their_place(tmp_path: Path, busy_port: int) -> None:
    listen = f"{{remote_workers: 1, listen: '127.0.0.1:{busy_port}', web_ui_port: {busy_port}}}"
    found = problems(tmp_path, "\n  ".join(part.strip() for part in listen.strip("{}").split(", ")))
    assert [p.split(":")[0] for p in found] == ["7", "8"]
    assert all("Address already in use" in p for p in found)


def test_workers_elsewhere_must_reach_the_target(tmp_path: Path) -> None:
    """A proxy, or a target, on 127.0.0.1 is another one on every machine: all their requests would fail."""
    load = "remote_workers: 1\n  listen: ':5999'"
    (problem,) = problems(tmp_path, load, ENGINE)
    assert problem.startswith("6:19: the included engine is reached from this machine only")
    (problem,) = problems(tmp_path, load, LOCAL)
    assert problem.startswith("6:19: on other machines 127.0.0.1 means themselves")
    (problem,) = problems(tmp_path, load, "url: http://0.0.0.0:9/v1", LATENCY)
    assert problem.startswith("6:19: the proxy of slow is reached from this machine only")
    local = "remote_workers: 1\n  listen: '127.0.0.1:5999'"
    assert problems(tmp_path, local, ENGINE, LATENCY) == []


def test_what_does_not_go_through_a_unix_socket_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "unix_socket: /run/s", LOCAL, LATENCY)
    assert problem.startswith("6:16: the proxy of slow reaches the target by its address only; leave")
    (problem,) = problems(tmp_path, "unix_socket: /run/s", ENGINE)
    assert "the included engine listens on none" in problem
    assert problems(tmp_path, "unix_socket: /run/s") == []
