"""The edges of the load: odd addresses, clients that all hang up, several runs at once, a load that hangs."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from load_driver import Driver
from load_orchestrator import LoadRun, order_for
from load_scripted_server import ScriptedServer

from chaosflow.core.loadlink import LoadOrder
from chaosflow.orchestrator.children import Place
from chaosflow.orchestrator.loadprocess import LoadProcess

POISSON = {"kind": "poisson", "rate_per_s": 40}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def test_a_unix_socket_whose_path_has_spaces() -> None:
    driver = Driver()
    folder = Path(tempfile.mkdtemp(prefix="a b ü%20 "))
    try:
        with ScriptedServer(unix=str(folder / "s o")) as made:
            (row,) = driver.fetch("http://whatever.test/good/v1", plan={"unix_socket": str(folder / "s o")})
            assert made.connections == 1
    finally:
        driver.close()
        shutil.rmtree(folder)
    assert row["outcome"] == "ok"


@pytest.mark.slow
def test_when_every_client_hangs_up_nothing_counts_as_good_or_bad(
    tmp_path: Path, server: ScriptedServer
) -> None:
    plan = {"arrival": POISSON, "aborts": {"share": "100%", "after_tokens": 1}}
    with LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        run.run_for(1.2)
        assert run.stop() == 0
        total = run.total()
        assert total.fired > 20
        assert (total.resolved, total.failed, total.complete) == (0, 0, 0)
        assert set(run.store.outcomes) == {("baseline", "cancelled")}
        assert run.store.total("baseline", 1).n == 0, "error_rate has no cohort"


@pytest.mark.slow
def test_two_loads_at_once_do_not_meet(tmp_path: Path, server: ScriptedServer) -> None:
    folders = [tmp_path / name for name in "ab"]
    with ExitStack() as stack:
        runs = []
        for folder in folders:
            folder.mkdir()
            runs.append(
                stack.enter_context(LoadRun(folder, server.url("good"), {"arrival": POISSON, "workers": 2}))
            )
        for run in runs:
            run.start()
        for run in runs:
            run.run_for(0.8)
        for run in runs:
            assert run.stop() == 0
            assert run.of_kind("lost") == []
        assert sum(run.total().fired for run in runs) == server.served


@pytest.mark.slow
def test_workers_that_die_at_their_start_end_the_load_and_are_named(tmp_path: Path) -> None:
    """inference-perf 647, 370: of their kind, before anything was sent."""
    (tmp_path / "dies.py").write_text("import os\nos._exit(7)\n")
    plan = {"arrival": {"kind": "closed", "users": 1}, "locustfile": str(tmp_path / "dies.py"), "workers": 2}
    (tmp_path / "o.json").write_text(json.dumps(order_for(tmp_path, "http://127.0.0.1:9/v1", plan)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        command = [sys.executable, "-m", "chaosflow.load", str(tmp_path / "o.json"), str(tmp_path / "s")]
        done = subprocess.run(command, capture_output=True, timeout=60)
        link, _ = listener.accept()
        with link, link.makefile("rb") as lines:
            told = [json.loads(line) for line in lines]
    assert done.returncode == 1
    assert [(m["type"], m["reason"]) for m in told] == [("lost", "ended with exit code 7")] * 2


@pytest.mark.slow
def test_a_limit_of_this_machine_is_not_sold_as_the_services(tmp_path: Path, server: ScriptedServer) -> None:
    """guidellm 487, 1041: of their kind; without file descriptors it is the client that cannot."""
    with LoadRun(tmp_path, server.url("hang"), {"arrival": POISSON}) as run:
        run.start()
        run.run_for(0.3)
        (worker,) = run.workers
        soft = worker.num_fds() + 5
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (soft, soft))
        run.run_for(2.0)
        assert run.stop(drain_s=0.1) == 0
        assert run.batches[-1].health["cap_hits"] > 0
        assert any("own limit was reached: Too many open files" in m["text"] for m in run.of_kind("note"))


@pytest.mark.slow
def test_a_master_that_hangs_is_a_lost_load_within_seconds(tmp_path: Path, server: ScriptedServer) -> None:
    """inference-perf 647, 370: what should report the loss may itself be what hangs."""
    lost: list[str] = []
    order = LoadOrder.model_validate(order_for(tmp_path, server.url("good"), {"arrival": POISSON}))

    async def watched() -> float:
        load = LoadProcess(
            Place("r", tmp_path),
            tmp_path,
            on_batch=lambda batch: None,
            on_lost=lost.append,
            on_note=lambda text: None,
        )
        await load.start(order, None)
        try:
            load.begin(time.monotonic_ns())
            await asyncio.sleep(1.5)
            assert lost == []
            assert load._child is not None
            (master,) = [
                p
                for p in (psutil.Process(load._child.pid), *psutil.Process(load._child.pid).children())
                if "chaosflow.load" in p.cmdline() and not p.name().startswith("load-worker")
            ]
            master.send_signal(signal.SIGSTOP)
            stopped_s = time.monotonic()
            while not lost and time.monotonic() - stopped_s < 20:
                await asyncio.sleep(0.05)
            took_s = time.monotonic() - stopped_s
            master.send_signal(signal.SIGCONT)
            return took_s
        finally:
            await load.stop()

    assert asyncio.run(watched()) < 10
    assert lost == ["the load process said nothing for 5 s"]
