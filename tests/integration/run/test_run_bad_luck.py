"""What goes wrong around a run: a clear message, the right exit code, nothing left, nothing lost."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest_run import Place, Server, scenario

from chaosflow.core.host import state

pytestmark = pytest.mark.slow

JITTER = {"name": "jitter", "type": "proxy.latency", "duration": "2s", "params": {"delay_ms": 10}}
FREEZE = {"name": "freeze", "type": "process.pause", "duration": "2s"}


def test_a_target_that_never_gets_healthy_is_invalid(place: Place) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    run = place.run(scenario(target={"url": url, "ready_timeout": "1s"}))
    assert run.process.returncode == 4, run.text
    assert "not healthy after 1 s" in run.text
    assert run.result["state"] == "invalid"


def test_a_port_in_use_is_named_and_nothing_is_touched(place: Place) -> None:
    """The engine's port is fixed by the scenario, and the namespace is the host's: only without root it can clash."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = place.chaosflow("serve", "--port", str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "in use" in done.stderr


def test_a_server_that_dies_in_mid_run_is_told_by_its_requests(place: Place, server: Server) -> None:
    run = place.start(
        scenario(
            target={"url": server.url, "process": {"pid": server.process.pid}},
            faults=[JITTER],
            load={"arrival": {"kind": "constant", "rate_per_s": 20}, "prompt_tokens": 8, "output_tokens": 4},
            sla={"objectives": ["error_rate <= 5%"], "window": "5s"},
        )
    )
    run.until("injected and verified: jitter")
    server.process.kill()
    assert run.wait(60) == 1, run.text
    outcomes = {k for s in run.result["segments"] for k in s["outcomes"]}
    assert outcomes & {"connect", "reset", "truncated"}


def test_a_fault_that_nothing_met_is_never_a_pass(place: Place, server: Server) -> None:
    """chaosd 273, chaosblade 1315: in place from its begin to its end, and without any effect."""
    never = {"name": "cut", "type": "proxy.limit_data", "duration": "2s", "params": {"limit_bytes": 10**9}}
    run = place.run(
        scenario(target={"url": server.url}, faults=[never], sla={"objectives": ["error_rate <= 100%"]})
    )
    assert run.process.returncode == 4, run.text
    assert "in place all the time, with no effect: 0 of" in run.text


def test_a_fault_that_does_not_land_is_never_a_pass(place: Place, server: Server) -> None:
    """chaosd 273, chaostoolkit-lib 95: the target is gone when its turn comes."""
    run = place.start(
        scenario(
            target={"url": server.url, "process": {"pid": server.process.pid}},
            faults=[FREEZE],
            sla={"objectives": ["error_rate <= 100%"]},
        )
    )
    run.until("warm-up")
    server.process.kill()
    server.process.wait()
    assert run.wait(60) == 4, run.text
    assert "freeze" in run.result["reason"]
    assert not run.fault("freeze")["confirmed"]


def test_two_runs_may_not_act_on_one_process(place: Place, server: Server) -> None:
    target = {"url": server.url, "process": {"pid": server.process.pid}}
    one = place.start(scenario(name="one", target=target, faults=[FREEZE]))
    one.until("is healthy")
    two = place.run(scenario(name="two", target=target, faults=[FREEZE]))
    assert two.process.returncode == 2, two.text
    assert "is acting on" in two.text
    assert one.wait() in (0, 3), one.text
    assert state(server.process.pid) in "SR"


def test_a_run_that_was_killed_keeps_what_it_had_measured(place: Place) -> None:
    run = place.start(scenario(faults=[JITTER]))
    run.until("injected and verified: jitter")
    run.process.kill()
    run.wait()
    assert place.wait_until_clean(5.0)[1] == []
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    assert any(e["what"] == "inject_ack" for e in events)
    cells = []
    with gzip.open(run.folder / "cells.jsonl.gz", "rt") as file:
        try:
            cells = [json.loads(line) for line in file]
        except EOFError:  # killed in mid-write: what was flushed is there
            file.seek(0)
            cells = [json.loads(file.readline())]
    assert cells
    assert list((run.folder / "records").glob("records-*.jsonl.gz"))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small disk")
def test_a_disk_that_fills_up_in_mid_run_loses_no_verdict(place: Place) -> None:
    disk = place.top / "runs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk)], check=True)
    try:
        run = place.run(scenario(faults=[JITTER], sla={"objectives": ["error_rate <= 50%"]}))
        assert run.process.returncode in (0, 3), run.text
        assert "incomplete" in run.text or "reports are in" in run.text
        report = next(line for line in run.text.splitlines() if line.startswith("report: "))
        assert Path(report.removeprefix("report: ")).exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a full disk")
def test_a_disk_that_is_full_from_the_start_is_refused(place: Place) -> None:
    disk = place.top / "runs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(disk)], check=True)
    try:
        (disk / "ballast").write_bytes(b"x" * 8192)
        run = place.run(scenario())
        assert run.process.returncode == 2, run.text
        assert "--runs-dir" in run.text
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_secret_appears_in_no_artifact(
    place: Place, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """chaostoolkit 178: secrets verbatim in the journal. A canary in the environment, searched for everywhere."""
    canary = "canary-3f81d0a6c2"
    monkeypatch.setenv("CANARY_KEY", canary)
    target = {"url": server.url, "api_key": "${env:CANARY_KEY}", "process": {"pid": server.process.pid}}
    load = {
        "arrival": {"kind": "constant", "rate_per_s": 10},
        "prompt_tokens": 8,
        "output_tokens": 4,
        "headers": {"X-Key": "${env:CANARY_KEY}"},
    }
    run = place.start(scenario(target=target, load=load, faults=[JITTER]))
    run.until("injected and verified: jitter")
    journal = b"".join(p.read_bytes() for p in (place.top / "s").rglob("*") if p.is_file())
    assert run.wait() in (0, 3), run.text
    assert canary.encode() not in journal
    assert canary not in run.text
    for path in run.folder.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert canary.encode() not in data, path


def test_a_closed_terminal_is_no_obstacle_to_the_undo(place: Place, server: Server) -> None:
    """The reader of our output goes away (head, a closed pager): everything is still undone."""
    from conftest_run import CHAOSFLOW

    path = place.write(
        scenario(target={"url": server.url, "process": {"pid": server.process.pid}}, faults=[FREEZE])
    )
    process = subprocess.Popen(
        [*CHAOSFLOW, "run", str(path), "--plain", "--runs-dir", str(place.top / "runs")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=place.env,
    )  # fmt: skip
    assert process.stdout
    process.stdout.readline()
    process.stdout.close()
    process.wait(60)
    assert process.returncode in (0, 3)
    assert state(server.process.pid) in "SR"


def test_stopping_the_orchestrator_itself_does_not_undo_too_late(place: Place, server: Server) -> None:
    """SIGSTOP of ours (Ctrl-Z) and SIGCONT: the plan is late, the undo still comes."""
    run = place.start(
        scenario(target={"url": server.url, "process": {"pid": server.process.pid}}, faults=[FREEZE])
    )
    run.until("injected and verified: freeze")
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(3)
    run.process.send_signal(signal.SIGCONT)
    assert run.wait(60) in (0, 1, 3, 4), run.text
    assert state(server.process.pid) in "SR"
