"""A locustfile of the user's own: under plain Locust, and as the load of a run."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from load_orchestrator import LoadRun
from load_scripted_server import ScriptedServer

from chaosflow.load.records import read_records

LOCUSTFILE = """
from locust import constant, task
from chaosflow.load import StreamingUser

class Chat(StreamingUser):
    host = "URL"
    model = "tiny"
    wait_time = constant(0.05)

    @task
    def ask(self):
        answer = self.stream("hello", max_tokens=4, name="hello", temperature=0)
        assert answer.ok, answer.record.error
        assert answer.text == "xxxx", answer.text
        assert 0 < answer.ttft_s <= answer.e2e_s
"""

ENDS = """
from locust import events

asked = []

@events.request.add_listener
def enough(**_):
    asked.append(1)
    if len(asked) == 40:
        import gevent
        gevent.spawn_later(2, end)  # its figures are written once a second

@events.init.add_listener
def remember(environment, **_):
    global end
    end = environment.runner.quit
"""
"""Enough requests, however slow the machine is."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", ["good", "error_event"])
def test_under_plain_locust_it_reports_whole_streams_and_first_tokens(tmp_path: Path, case: str) -> None:
    """locust 2443, 1406: the time of a streamed body excluded."""
    with ScriptedServer() as server:
        file = tmp_path / "mine.py"
        file.write_text(LOCUSTFILE.replace("URL", server.url(case)) + ENDS)
        command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "-u", "3", "-r", "3"]
        command += ["-t", "60s", "--csv", str(tmp_path / "out"), "--only-summary"]
        done = subprocess.run(command, capture_output=True, timeout=90, cwd=tmp_path)
        assert done.returncode == (0 if case == "good" else 1), done.stderr[-2000:]
        assert b'"temperature":0' in server.bodies[0]
    with (tmp_path / "out_stats.csv").open() as lines:
        rows = {(r["Type"], r["Name"]): r for r in csv.DictReader(lines)}
    whole, first = rows["SSE", "hello"], rows["TTFT", "hello"]
    assert int(whole["Request Count"]) > 10
    assert int(whole["Failure Count"]) == (0 if case == "good" else int(whole["Request Count"]))
    assert float(whole["Min Response Time"]) > float(first["Min Response Time"]) >= 10
    assert float(whole["Min Response Time"]) >= 40, "the body's time is in it"


def test_as_the_load_of_a_run_its_requests_are_recorded_and_judged(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(LOCUSTFILE)
    plan = {
        "arrival": {"kind": "closed", "users": 4},
        "locustfile": str(file),
        "workers": 2,
        "max_requests": 40,
    }
    with ScriptedServer() as server, LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        run.run_for(3)
        assert run.stop() == 0
        total = run.total()
        assert (total.resolved, total.failed, total.tokens) == (40, 0, 160)
        assert run.store.total("baseline", 0).n == 40
        rows = [r for n in range(2) for r in read_records(tmp_path / f"records-{n}.jsonl.gz")]
        assert sorted(r["j"] for r in rows) == list(range(40))


def test_a_locustfile_without_a_streaming_user_ends_the_load_with_its_name(tmp_path: Path) -> None:
    from load_orchestrator import order_for

    from chaosflow.core.loadlink import LoadOrder

    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    plan = {"arrival": {"kind": "closed", "users": 1}, "locustfile": str(file)}
    order = LoadOrder.model_validate(order_for(tmp_path, "http://127.0.0.1:1/v1", plan))
    program = "import sys; from chaosflow.load.session import Session; from chaosflow.core.loadlink import LoadOrder\n"
    program += (
        "Session(LoadOrder.model_validate_json(sys.argv[1]), 0, '', send=print, resolved=print, note=print)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, order.model_dump_json()], capture_output=True, timeout=60
    )
    assert b"mine.py: holds no StreamingUser" in done.stderr


def test_asking_for_it_is_what_imports_gevent() -> None:
    program = "import sys, chaosflow.load as load; assert 'gevent' not in sys.modules; load.StreamingUser"
    program += "; assert 'gevent' in sys.modules; assert load.StreamingUser.abstract"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_locusts_web_page_shows_the_load_of_a_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    plan = {"arrival": {"kind": "poisson", "rate_per_s": 20}, "web_ui_port": port}
    with ScriptedServer() as server, LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        shown: dict[str, Any] = {}
        for _ in range(20):
            run.run_for(1)
            with opener.open(f"http://127.0.0.1:{port}/stats/requests", timeout=10) as answer:
                shown = json.load(answer)
            total = shown["stats"][-1]
            if total["num_requests"]:
                break
        with opener.open(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert b"Locust" in answer.read()
        assert run.stop() == 0
    assert shown["state"] == "running"
    assert (total["num_requests"] > 0, total["num_failures"]) == (True, 0)


GREEDY = """
import gevent
from locust import constant, task
from chaosflow.load import StreamingUser

class Greedy(StreamingUser):
    wait_time = constant(0.1)

    @task
    def ask(self):
        both = [gevent.spawn(self.stream, "hello", max_tokens=4) for _ in range(2)]
        gevent.joinall(both)
        first, second = (one.get() for one in both)
        assert first.ok and not second.ok, (first.record, second.record)
        assert "max_in_flight" in second.record.error
"""


def test_what_was_not_sent_for_the_cap_is_no_answer_and_the_cap_is_counted(tmp_path: Path) -> None:
    """guidellm 487, 1041: of their kind, by a user that asks twice at once."""
    file = tmp_path / "mine.py"
    file.write_text(GREEDY)
    plan = {"arrival": {"kind": "closed", "users": 1}, "locustfile": str(file), "max_in_flight": 1}
    with ScriptedServer() as server, LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        run.run_for(2)
        assert run.stop() == 0
        assert run.batches[-1].health["cap_hits"] > 0
        assert [m for m in run.of_kind("note") if "raised" in m["text"]] == []
