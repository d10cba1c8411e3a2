"""Undo on every way out: signals once and twice, kill -9 in every phase, helpers that die."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest_run import Place, Running, Server, scenario

from chaosflow.core.host import state

pytestmark = pytest.mark.slow

PHASES = ["is healthy", "baseline", "injected and verified: delay", "reverted and verified: delay"]


def busy(server: Server | None = None) -> dict[str, Any]:
    """Several faults at once, on the included engine or on a user's server."""
    faults: list[dict[str, Any]] = [
        {"name": "delay", "type": "proxy.latency", "duration": "2s", "params": {"delay_ms": 20}},
        {"name": "freeze", "type": "process.pause", "with": "delay", "duration": "1500ms"},
    ]
    if server is None:
        faults.append(
            {
                "name": "clock",
                "type": "gpu.clock",
                "with": "delay",
                "duration": "2s",
                "params": {"target_freq_mhz": 300},
            }
        )
        return scenario(faults=faults)
    if server.cgroup:
        faults.append(
            {
                "name": "quota",
                "type": "host.cpu_quota",
                "with": "delay",
                "duration": "2s",
                "params": {"percent": 50},
            }
        )
    return scenario(faults=faults, target={"url": server.url, "process": {"pid": server.process.pid}})


def orchestrator_children(run: Running) -> dict[str, psutil.Process]:
    """Helpers of a run by a word in their command line."""
    found = {}
    for child in psutil.Process(run.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(child.cmdline())
            for word in (
                "chaosflow.engine",
                "chaosflow.faults.proxy",
                "chaosflow.load",
                "chaosflow.watchdog",
            ):
                if word in line:
                    found.setdefault(word.rsplit(".", 1)[1], child)
    return found


@pytest.mark.parametrize("moment", PHASES)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_any_phase_undoes_all_and_still_reports(
    place: Place, moment: str, number: int, code: int
) -> None:
    """chaostoolkit 195, 258, 176: no way out without the undo."""
    run = place.start(busy())
    run.until("warm-up" if moment == "baseline" else moment)
    run.process.send_signal(number)
    assert run.wait(30) == code, run.text
    assert place.wait_until_clean(2.0)[1] == []
    assert run.result["exit_code"] == code
    assert (run.folder / "report.html").exists(), "nothing is lost of what was measured so far"


def test_a_second_signal_during_the_undo_changes_nothing(place: Place, server: Server) -> None:
    """chaostoolkit-lib 133: a signal during rollback aborted the rest."""
    run = place.start(busy(server))
    run.until("injected and verified: freeze")
    for _ in range(5):
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    assert run.wait(30) == 130, run.text
    assert state(server.process.pid) in "SR"
    assert all(f["reverted"] for f in run.result["faults"] if f["inject_begin_s"] is not None)


def test_hangup_undoes_all(place: Place) -> None:
    """chaosblade 1073: HUP ignored."""
    run = place.start(busy())
    run.until("injected and verified: freeze")
    run.process.send_signal(signal.SIGHUP)
    assert run.wait(30) == 143, run.text


@pytest.mark.parametrize("seed", range(10))
def test_kill_9_at_a_random_instant_leaves_nothing(place: Place, server: Server, seed: int) -> None:
    """pumba 147: the watchdog clears within 2 s. Two runs a test: the included engine and a user's server."""
    quota_before = server.quota() if server.cgroup else ""
    runs = [place.start(busy()), place.start(busy(server))]
    time.sleep(random.Random(seed).uniform(0.2, 9.0))
    for run in runs:
        run.process.kill()
    killed_at = time.monotonic()
    for run in runs:
        run.wait()
    took_s, left = place.wait_until_clean(6.0)
    assert left == [], f"{left} after {time.monotonic() - killed_at:.1f} s"
    assert took_s < 5.0  # 2 s is the aim, measured by the benchmark; this machine may be busy
    assert state(server.process.pid) in "SR", "the user's server is not stopped"
    assert not server.cgroup or server.quota() == quota_before


def test_a_killed_engine_helper_in_mid_pause_is_no_obstacle(place: Place) -> None:
    """litmus-go 591, chaos-mesh 4827: the target restarts in mid-fault, and the revert cannot find it."""
    run = place.start(busy())
    run.until("injected and verified: freeze")
    orchestrator_children(run)["engine"].kill()
    assert run.wait(60) in (1, 3, 4), run.text
    assert "not undone" not in run.text.lower()


def test_a_dead_watchdog_ends_the_run(place: Place) -> None:
    run = place.start(busy())
    run.until("warm-up")
    orchestrator_children(run)["watchdog"].kill()
    assert run.wait(30) == 6, run.text
    assert "watchdog" in run.result["reason"]


def test_dead_load_makes_the_run_invalid_within_seconds(place: Place) -> None:
    """inference-perf 647, 370: a dead worker hangs the run for ever."""
    run = place.start(busy())
    run.until("warm-up")
    began = time.monotonic()
    orchestrator_children(run)["load"].kill()
    assert run.wait(30) == 4, run.text
    assert time.monotonic() - began < 15
    assert "load" in run.result["reason"]


def test_a_dead_proxy_is_undone_without_complaint(place: Place, server: Server) -> None:
    """litmus 2359: kill the injector's child."""
    run = place.start(busy(server))
    run.until("injected and verified: delay")
    orchestrator_children(run)["proxy"].kill()
    assert run.wait(60) in (1, 3, 4), run.text
    assert state(server.process.pid) in "SR"


def test_heal_undoes_what_even_the_watchdog_could_not(place: Place, server: Server) -> None:
    """Watchdog and orchestrator both killed -9: the command, and the start of any later run, heal."""
    run = place.start(busy(server))
    run.until("injected and verified: freeze")
    children = orchestrator_children(run)
    children["watchdog"].suspend()  # so that the order of the two kills does not matter
    run.process.kill()
    children["watchdog"].kill()
    run.wait()
    assert state(server.process.pid) == "T"
    healed = place.chaosflow("heal")
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert "process.pause freeze" in healed.stdout
    assert state(server.process.pid) in "SR"
    assert place.leftovers() == []
    assert "nothing to undo" in place.chaosflow("heal").stdout


def test_something_already_stopped_stays_stopped(place: Place, server: Server) -> None:
    """chaosblade 398: what somebody else stopped is not continued by us."""
    sleeper = psutil.Popen(["sleep", "60"])
    try:
        folder = server.cgroup
        if folder is None:
            pytest.skip("needs a writable cgroup: two processes of one target")
        (folder / "cgroup.procs").write_text(str(sleeper.pid))
        os.kill(sleeper.pid, signal.SIGSTOP)
        mount = "/sys/fs/cgroup/cpu" if Path("/sys/fs/cgroup/cpu").exists() else "/sys/fs/cgroup"
        assert str(folder).startswith(mount)
        data = scenario(
            faults=[{"name": "freeze", "type": "process.pause", "duration": "500ms"}],
            target={"url": server.url, "process": {"cgroup": str(folder)}},
        )
        run = place.run(data)
        assert run.process.returncode in (0, 3), run.text
        assert state(sleeper.pid) == "T"
        assert state(server.process.pid) in "SR"
    finally:
        sleeper.kill()
        sleeper.wait()
