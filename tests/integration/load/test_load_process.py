"""The whole load process: master, workers, Locust between them, driven as the orchestrator drives it."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from load_orchestrator import LoadRun
from load_scripted_server import ScriptedServer

from chaosflow.load.records import read_records

pytestmark = pytest.mark.slow

POISSON = {"kind": "poisson", "rate_per_s": 40}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def wait_gone(processes: list[psutil.Process], timeout_s: float = 5.0) -> None:
    _, alive = psutil.wait_procs(processes, timeout_s)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_a_run_from_ready_to_bye_accounts_for_every_arrival(tmp_path: Path, server: ScriptedServer) -> None:
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON}) as run:
        run.start()
        run.run_for(2.2)
        assert len(run.batches) >= 1
        assert run.stop() == 0
        total = run.total()
        assert total.scheduled == total.fired == total.resolved == server.served > 40
        assert (total.failed, total.tokens) == (0, 4 * total.fired)
        assert run.store.outcomes == {("baseline", "ok"): total.fired}
        assert run.store.total("baseline", 0).n == run.store.total("baseline", 1).n == total.fired
        assert [b.seq for b in run.batches] == list(range(1, len(run.batches) + 1))
        assert [b.final for b in run.batches].count(True) == 1
        assert run.batches[-1].final
        assert run.batches[-1].in_flight == 0
        assert run.store.faults_seen == []
        assert run.batches[0].health["rss_bytes"] > 1e7
        assert run.batches[-1].health["user_stamps"] == 0
        wait_gone(run.workers)
        rows = list(read_records(tmp_path / "records-0.jsonl.gz"))
        assert sorted(r["j"] for r in rows) == list(range(total.fired))
    for file in tmp_path.iterdir():
        if file.is_file():
            assert b"canary-key" not in file.read_bytes()


def test_one_process_and_three_send_the_same_requests(tmp_path: Path, server: ScriptedServer) -> None:
    plan = {"arrival": {"kind": "constant", "rate_per_s": 60}, "max_requests": 60}
    bodies = []
    for workers in (1, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        server.bodies.clear()
        with LoadRun(folder, server.url("good"), {**plan, "workers": workers}) as run:
            assert run.of_kind("ready")[0]["workers"] == workers
            run.start()
            run.run_for(1.3)
            assert run.stop() == 0
            assert run.total().resolved == 60
            assert {b.worker for b in run.batches if b.final} == {str(w) for w in range(workers)}
        bodies.append(sorted(server.bodies))
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 60


def test_a_worker_that_dies_is_reported_and_does_not_hang_the_run(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """inference-perf 647, 370."""
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON, "workers": 2}) as run:
        run.start()
        run.run_for(0.7)
        run.workers[0].send_signal(signal.SIGKILL)
        lost = run.wait_for("lost", 3)
        assert "signal 9" in lost["reason"]
        run.run_for(0.5)
        assert run.stop() == 0
        assert len(run.of_kind("lost")) == 1


def test_a_worker_that_hangs_is_reported(tmp_path: Path, server: ScriptedServer) -> None:
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON}) as run:
        run.start()
        run.run_for(0.3)
        run.workers[0].send_signal(signal.SIGSTOP)
        assert run.wait_for("lost", 10)["worker"] == "0"
        run.wait_for("bye", 5)
        wait_gone(run.workers)


def test_the_load_ends_when_the_orchestrator_is_gone(tmp_path: Path, server: ScriptedServer) -> None:
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON, "workers": 2}) as run:
        run.start()
        run.run_for(0.3)
        run.hang_up()
        run.process.wait(5)
        wait_gone(run.workers)


def test_the_workers_end_when_the_master_is_killed(tmp_path: Path, server: ScriptedServer) -> None:
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON, "workers": 2}) as run:
        run.start()
        run.run_for(0.3)
        run.process.kill()
        wait_gone(run.workers)


def test_sigterm_ends_it_quickly_with_its_final_batches(tmp_path: Path, server: ScriptedServer) -> None:
    with LoadRun(tmp_path, server.url("hang"), {"arrival": POISSON}) as run:
        run.start()
        run.run_for(0.5)
        began_s = time.monotonic()
        run.process.terminate()
        run.wait_for("bye", 5)
        assert run.process.wait(5) == 0
        assert time.monotonic() - began_s < 5
        assert run.batches[-1].final
        total = run.total()
        assert (total.resolved, run.store.outcomes) == (0, {("baseline", "cancelled"): total.fired})


def test_what_outlives_the_drain_is_cancelled_but_a_hang_has_been_counted(
    tmp_path: Path, server: ScriptedServer
) -> None:
    objectives = ["e2e.p95 <= 300ms", "gap.p99 <= 200ms", "error_rate <= 1%"]
    with LoadRun(
        tmp_path, server.url("hang"), {"arrival": {"kind": "closed", "users": 3}}, objectives
    ) as run:
        run.start()
        run.run_for(1.5)
        assert run.stop(drain_s=0.1) == 0
        e2e, gap, errors = (run.store.total("baseline", i) for i in range(3))
        assert (e2e.n, e2e.fail_low) == (3, 3)
        assert (gap.n, gap.fail_low) == (3 * 3 + 3, 3)
        assert errors.n == 0


def test_a_target_that_is_down_is_not_hammered(tmp_path: Path) -> None:
    """locust 816, k6 4670."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    plan = {"arrival": {"kind": "closed", "users": 4}}
    with LoadRun(tmp_path, f"http://127.0.0.1:{port}/v1", plan) as run:
        run.start()
        run.run_for(2)
        assert run.stop() == 0
        total = run.total()
        assert 4 <= total.resolved == total.failed <= 4 * 8
        assert run.store.outcomes == {("baseline", "connect"): total.failed}


def test_the_cap_on_requests_in_flight_is_named_and_never_silent(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """guidellm 487, 1041."""
    with LoadRun(tmp_path, server.url("hang"), {"arrival": POISSON, "max_in_flight": 5}) as run:
        run.start()
        run.run_for(1)
        run.stop(drain_s=0)
        total = run.total()
        assert total.fired == 5
        assert run.batches[-1].health["cap_hits"] == total.scheduled - 5 > 0


def test_a_disk_that_takes_no_records_does_not_stop_the_load(tmp_path: Path, server: ScriptedServer) -> None:
    (tmp_path / "records-0.jsonl.gz").symlink_to("/dev/full")
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON}) as run:
        run.start()
        run.run_for(1)
        assert run.stop() == 0
        assert "No space left" in run.of_kind("note")[0]["text"]
        assert run.total().resolved > 10


def test_marks_and_limits_reach_the_cells(tmp_path: Path, server: ScriptedServer) -> None:
    objectives = ["ttft.p95 <= 2x baseline"]
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON}, objectives) as run:
        run.start()
        run.run_for(0.5)
        now_ns = time.monotonic_ns()
        run.send("limits", limits={"0": [1e-6, 10.0]})
        for kind in ("baseline_end", "inject_begin", "inject_ack"):
            run.send("mark", mark=[kind, now_ns, "pause", True])
        run.run_for(0.7)
        assert run.stop() == 0
        cell = run.store.total("pause", 0)
        assert cell.n == cell.fail_low > 0
        assert cell.pass_high == 0
        assert run.store.total("baseline", 0).n == 0
