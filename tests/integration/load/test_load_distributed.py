"""Workers on other machines: the same requests, the same counts, one clock, and no silent loss."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from load_net import Machine, server_on, three_machines, worker_on
from load_orchestrator import LoadRun, order_for
from load_scripted_server import ScriptedServer

from chaosflow.load.records import read_records

RATE, REQUESTS = 60, 90
PLAN: dict[str, Any] = {"arrival": {"kind": "poisson", "rate_per_s": RATE}, "max_requests": REQUESTS}
SPLIT = {"workers": 0, "remote_workers": 2}

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2 for network namespaces"
)


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Machine, Machine, Machine]]:
    with three_machines() as made:
        yield made


def totals(run: LoadRun) -> dict[str, int]:
    total = run.total()
    return {name: getattr(total, name) for name in ("scheduled", "fired", "resolved", "failed", "tokens")}


@pytest.mark.root
@pytest.mark.slow
@needs_root
def test_three_machines_give_the_same_requests_and_counts_as_one_process(
    tmp_path: Path, machines: tuple[Machine, Machine, Machine]
) -> None:
    found: list[tuple[list[bytes], dict[str, int]]] = []
    for kind, split in (("one", {"workers": 1}), ("three", {**SPLIT, "listen": machines[0].address})):
        folder = tmp_path / kind
        folder.mkdir()
        with ExitStack() as stack:
            url = stack.enter_context(server_on(machines[0], folder / "bodies"))
            if kind == "three":
                for machine in machines[1:]:
                    stack.enter_context(worker_on(machine.within, machines[0].address, folder / machine.name))
            run = stack.enter_context(LoadRun(folder, url, {**PLAN, **split}, within=machines[0].within))
            run.start()
            run.run_for(REQUESTS / RATE + 1)
            assert run.stop() == 0
            assert run.store.faults_seen == []
            if kind == "three":
                assert {b.worker for b in run.batches if b.final} == {"0", "1"}
                assert sum("clocks differ by" in n["text"] for n in run.of_kind("note")) == 2
                files = [f for m in machines[1:] for f in (folder / m.name).rglob("*.jsonl.gz")]
                assert sorted(r["j"] for f in files for r in read_records(f)) == list(range(REQUESTS))
            counts = totals(run)
        found.append((sorted((folder / "bodies").read_bytes().split(b"\n")), counts))
    assert found[0] == found[1]
    assert found[0][1]["resolved"] == REQUESTS == len(found[0][0])


@pytest.mark.root
@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_worker_lost_on_another_machine_is_named_within_five_seconds(
    tmp_path: Path, machines: tuple[Machine, Machine, Machine], how: signal.Signals
) -> None:
    """inference-perf 647, 370: a dead worker hangs the run for ever."""
    master = machines[0]
    with ExitStack() as stack:
        url = stack.enter_context(server_on(master, tmp_path / "bodies"))
        workers = [
            stack.enter_context(worker_on(m.within, master.address, tmp_path / m.name)) for m in machines[1:]
        ]
        plan = {**PLAN, **SPLIT, "listen": f"{master.address}:5557", "max_requests": None}
        run = stack.enter_context(LoadRun(tmp_path, url, plan, within=master.within))
        run.start()
        run.run_for(1.5)
        began_s = time.monotonic()
        workers[0].send_signal(how)
        run.wait_for("lost", 10)
        assert time.monotonic() - began_s <= 5.5
        run.run_for(0.5)
        assert run.stop() == 0
        assert len(run.of_kind("lost")) == 1


@pytest.mark.root
@pytest.mark.slow
@needs_root
def test_a_worker_whose_clock_differs_counts_in_the_masters_time(tmp_path: Path) -> None:
    """A time namespace (time_namespaces(7)) is a machine that was booted 1,000 s earlier."""
    if subprocess.run(["unshare", "-T", "true"], capture_output=True).returncode:
        pytest.skip("this kernel has no time namespaces")
    elsewhere = ["unshare", "--fork", "--kill-child", "-T", "--monotonic", "1000"]
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer())
        stack.enter_context(worker_on(elsewhere, "127.0.0.1:5561", tmp_path / "far"))
        plan = {**PLAN, "workers": 1, "remote_workers": 1, "listen": "127.0.0.1:5561"}
        run = stack.enter_context(LoadRun(tmp_path, server.url("good"), plan))
        run.start()
        run.run_for(REQUESTS / RATE + 1)
        assert run.stop() == 0
        assert run.total().resolved == REQUESTS
        near, far = ([b for b in run.batches if b.worker == w] for w in "01")
        assert abs(far[-1].health["clock_offset_s"] + 1000) < 0.5
        assert abs(near[-1].health["clock_offset_s"]) <= near[-1].health["clock_offset_error_s"] < 0.5
        for batch in far:
            assert abs(batch.watermark_ns - run.t0_ns) < 60e9
        by_second = {s: c.fired for (s, g), c in run.store.counts.items() if g == "*" and c.fired}
        assert set(by_second) <= {0, 1, 2}
        assert run.store.by_segment["baseline", "client_lag"].quantile_ns(0.5) < 50e6  # type: ignore[operator]


@pytest.mark.slow
def test_a_worker_that_nobody_expects_is_sent_away(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        plan = {**PLAN, "workers": 1, "remote_workers": 0, "listen": "127.0.0.1:5562"}
        with LoadRun(tmp_path, server.url("good"), plan) as run:
            with worker_on([], "127.0.0.1:5562", tmp_path) as worker:
                _, said = worker.communicate(timeout=20)
            assert worker.returncode == 1
            assert b"takes no (more) workers" in said
            run.start()
            run.run_for(0.5)
            assert run.stop() == 0
            assert run.of_kind("lost") == []


@pytest.mark.slow
def test_a_worker_ends_when_its_master_is_gone(tmp_path: Path) -> None:
    with ScriptedServer() as server, worker_on([], "127.0.0.1:5563", tmp_path / "w") as worker:
        plan = {**PLAN, **SPLIT, "remote_workers": 1, "listen": "127.0.0.1:5563"}
        with LoadRun(tmp_path, server.url("good"), plan) as run:
            run.start()
            run.run_for(0.5)
            run.process.kill()
            assert worker.wait(15) == 1
            assert b"does not answer" in worker.stderr.read()  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_file_named_by_the_plan_that_is_not_there_ends_the_load_with_its_name(tmp_path: Path) -> None:
    order = order_for(tmp_path, "http://127.0.0.1:1/v1", {**PLAN, "prompts_file": "/nowhere/p.jsonl"})
    (tmp_path / "o.json").write_text(json.dumps(order))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s2"))
        listener.listen()
        command = [sys.executable, "-m", "chaosflow.load", str(tmp_path / "o.json"), str(tmp_path / "s2")]
        done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"/nowhere/p.jsonl: No such file" in done.stderr
