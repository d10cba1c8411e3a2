"""Real sweeps by the real command: a breaking point is found, and an interrupt keeps what there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest_run import CHAOSFLOW, Place, Running, scenario

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
DELAY = "faults.slow.params.delay_ms"


def slow() -> dict[str, Any]:
    return scenario(
        name="breaks",
        load={"arrival": {"kind": "constant", "rate_per_s": 20}, "prompt_tokens": 16, "output_tokens": 8},
        faults=[{"name": "slow", "type": "proxy.latency", "duration": "2s", "params": {"delay_ms": 1}}],
        sla={"objectives": ["ttft.p70 <= 1s", "error_rate <= 90%"], "window": "5s"},
    )


def start(place: Place, *options: str) -> Running:
    command = [
        *CHAOSFLOW,
        "sweep",
        str(place.write(slow())),
        "--plain",
        "--runs-dir",
        str(place.top / "runs"),
        *options,
    ]
    log = place.top / "sweep.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=place.env,
            start_new_session=True, cwd=place.top,
        )  # fmt: skip
    running = Running(process, log, place)
    place.runs.append(running)
    return running


def kept(place: Place) -> tuple[Path, dict[str, Any]]:
    (folder,) = (place.top / "runs").glob("*-sweep-*")
    return folder, json.loads((folder / "sweep.json").read_text())


def test_the_breaking_point_of_a_real_service_is_found(place: Place) -> None:
    sweep = start(place, "--set", f"{DELAY}=20,1800", "--retries", "1", "--metrics-port", "0")
    assert sweep.wait(200) == 0, sweep.text
    folder, result = kept(place)
    assert [p["state"] for p in result["points"]] == ["pass", "fail"]
    (line,) = result["breaking"]
    assert (line["verdict"], line["holds_up_to"], line["breaks_at"]) == ("found", "20", "1800")
    assert "sweep: 2 runs, about" in sweep.text
    assert "holds up to slow.delay_ms = 20 and breaks at 1800" in sweep.text
    assert (place.top / "runs" / "history.sqlite").exists(), "its runs stand in the history of all runs"
    assert not (folder / "history.sqlite").exists()
    for point in result["points"]:
        run = folder / point["runs"][-1]
        whole = json.loads((run / "result.json").read_text())
        assert whole["state"] == point["state"]
        assert str(whole["faults"][0]["params"]["delay_ms"]) == f"{float(point['values'][DELAY])}"
        assert (run / "report.html").exists()
        assert point["runs"][-1] in (folder / "sweep.html").read_text()
        ttft = next(o for o in point["objectives"] if o["metric"] == "ttft")
        assert ttft["observed"] is not None


def test_ctrl_c_undoes_the_run_in_progress_and_keeps_what_there_is(place: Place) -> None:
    sweep = start(place, "--set", f"{DELAY}=20,30,40")
    sweep.until("injected and verified: slow", 90)
    os.kill(sweep.process.pid, signal.SIGINT)
    assert sweep.wait(90) == 130, sweep.text
    folder, result = kept(place)
    assert len(result["points"]) == 1
    assert "SIGINT" in result["stopped"]
    assert "Stopped early" in sweep.text
    assert (folder / "sweep.html").exists()
    assert json.loads((folder / result["points"][0]["runs"][0] / "result.json").read_text())["faults"][0][
        "reverted"
    ]


def test_a_dry_run_says_how_long_and_touches_nothing(place: Place) -> None:
    path = place.write(slow())
    done = place.chaosflow("sweep", str(path), "--set", f"{DELAY}=10..200", "--bisect", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "at most 6 runs" in done.stdout
    assert "slow.delay_ms=10\n" in done.stdout
    assert not (place.top / "runs").exists()


def test_a_target_that_is_not_there_is_no_answer(place: Place) -> None:
    """keptn 2277: what was never measured is no pass, and no breaking point either."""
    data = slow() | {"target": {"url": "http://127.0.0.1:9/v1", "ready_timeout": "500ms"}}
    done = place.chaosflow("sweep", str(place.write(data)), "--set", f"{DELAY}=20,30", "--plain")
    assert done.returncode == 4, done.stdout + done.stderr
    _, result = kept(place)
    assert [p["state"] for p in result["points"]] == ["invalid", "invalid"]
    assert result["breaking"][0]["verdict"] == "undecided"


def test_a_sweep_that_cannot_begin_leaves_nothing(place: Place) -> None:
    runs = place.top / "runs"
    runs.write_text("in the way")
    done = place.chaosflow("sweep", str(place.write(slow())), "--set", f"{DELAY}=20,30", "--plain")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be written" in done.stderr
    assert runs.read_text() == "in the way"
