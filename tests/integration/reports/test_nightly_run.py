"""Real nightlies by the real command: the planted regression and nothing else, signals, the lock, CI examples."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import orjson
import pytest
from nightly_rig import seed_history

from chaosflow.core.histogram import Histogram
from chaosflow.core.slots import CellBatch
from chaosflow.reports.history.entry import entry_of
from chaosflow.reports.history.record import record_run
from chaosflow.reports.history.samples import CELLS_FILE
from chaosflow.reports.history.store import History
from chaosflow.reports.writer import load_result, result_json

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "reports"))
from sample_result import sample

pytestmark = pytest.mark.slow
CHAOSFLOW = [sys.executable, "-m", "chaosflow"]
SCENARIO = """\
name: small
target: {engine: {backend: sim}}
load: {arrival: {kind: constant, rate_per_s: 20}, prompt_tokens: 16, output_tokens: 6}
phases: {warmup: 300ms, baseline: 2s, recovery: 0s}
faults:
  - {name: slow, type: proxy.latency, duration: 2s, params: {delay_ms: 20}}
probes: []
sla: {objectives: ["error_rate <= 90%"], window: 5s}
"""


class Place:
    """A folder with one short scenario, and a suite of it."""

    def __init__(self, top: Path) -> None:
        self.top, self.runs = top, top / "runs"
        (top / "small.yaml").write_text(SCENARIO)
        self.suite("scenarios:\n  - run: small.yaml\nrepeat: 0\n")
        self.env = {**os.environ, "CHAOSFLOW_STATE_DIR": str(top / "s")}
        self.env.pop("GITHUB_STEP_SUMMARY", None)

    def suite(self, text: str) -> None:
        (self.top / "suite.yaml").write_text(text)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CHAOSFLOW, *arguments],
            cwd=self.top, env=self.env, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip

    def report(self) -> dict[str, object]:
        """The newest nightly's ``nightly.json``."""
        newest = max(self.runs.glob("*-nightly-*/nightly.json"), key=lambda p: p.stat().st_mtime)
        return dict(json.loads(newest.read_text()))


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("n"))


def test_a_seeded_history_of_60_nights_shows_the_planted_regression_and_nothing_else(place: Place) -> None:
    """Issue 5, done when 3; a real run is what the 60 nights are made of."""
    first = place.command("run", "small.yaml", "--plain")
    assert first.returncode == 0, first.stdout + first.stderr
    with History.open(place.runs / "history.sqlite") as history:
        (recorded,) = history.entries()
        assert history.folder(recorded) is not None
    run = entry_of(load_result(next(place.runs.glob("*-small-*"))))
    assert recorded.values == run.values
    planted = ("slow", "e2e_p95_ms")
    assert planted in run.values
    path = place.runs / "seeded.sqlite"
    seed_history(path, run, 60, changes={planted: {52: 1.25}})
    done = place.command("nightly", "suite.yaml", "--no-run", "--history", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    report = place.report()
    found = {(s["segment"], s["metric"]): s for s in report["series"]}  # type: ignore[attr-defined]
    assert [key for key, s in found.items() if s["state"] != "steady"] == [planted]
    (change,) = found[planted]["changes"]
    assert change["kind"] == "step"
    assert abs(change["index"] - 52) <= 1, "dated to when it began, 8 nights before it was looked for"
    assert "REGRESSION" in done.stdout
    place.suite(
        "scenarios:\n  - run: small.yaml\nannotations:\n"
        "  - {date: 2026-11-21, scenario: small, metric: e2e_p95_ms, text: larger model}\n"
    )
    known = place.command("nightly", "suite.yaml", "--no-run", "--history", str(path))
    assert known.returncode == 0, known.stdout
    assert "known: larger model" in known.stdout


def test_a_nightly_runs_repeats_a_suspect_and_leaves_everything(place: Place) -> None:
    """The scenario's objective cannot hold (on a busy machine: not be judged), so it is run once more."""
    (place.top / "small.yaml").write_text(
        SCENARIO.replace('"error_rate <= 90%"', "e2e.p50 <= 1us during slow")
    )
    place.suite("scenarios:\n  - run: small.yaml\nrepeat: 1\n")
    summary = place.top / "summary.md"
    place.env["GITHUB_STEP_SUMMARY"] = str(summary)
    done = place.command("nightly", "suite.yaml", "--plain")
    assert done.returncode in (1, 4), done.stdout + done.stderr
    assert "small: again, it was " in done.stdout
    report = place.report()
    assert [len(s["runs"]) for s in report["scenarios"]] == [2]  # type: ignore[attr-defined]
    folder = next(place.runs.glob("*-nightly-*"))
    assert sorted(p.name for p in folder.iterdir()) == [
        "junit.xml",
        "nightly.html",
        "nightly.json",
        "nightly.md",
    ]
    links = re.findall(r'href="(\.\./[^"]+)"', (folder / "nightly.html").read_text())
    assert len(links) == 2
    assert all((folder / link).is_file() for link in links)
    junit = ET.parse(folder / "junit.xml").getroot()
    assert int(junit.get("failures", 0)) + int(junit.get("errors", 0)) == 1
    assert "nightly suite.yaml" in summary.read_text()
    db = sqlite3.connect(place.runs / "history.sqlite")
    sessions = db.execute("SELECT DISTINCT session FROM run").fetchall()
    db.close()
    assert sessions == [(folder.name,)]
    compared = place.command("compare", *(link.split("/")[1] for link in links), "--json")
    assert compared.returncode in (0, 1, 3), compared.stderr
    assert json.loads(compared.stdout.splitlines()[0])["segment"] == "baseline"


def test_a_signal_ends_it_with_what_there_is_and_a_second_nightly_is_refused(place: Place) -> None:
    (place.top / "small.yaml").write_text(SCENARIO.replace("baseline: 2s", "baseline: 60s"))
    place.suite("scenarios:\n  - run: small.yaml\n  - {run: small.yaml, set: [name=second]}\n")
    log = (place.top / "log").open("w+b")
    process = subprocess.Popen(
        [*CHAOSFLOW, "nightly", "suite.yaml", "--plain"],
        cwd=place.top, env=place.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    log.close()
    try:
        _wait_for(place.top / "log", "is healthy")
        other = place.command("nightly", "suite.yaml", "--plain")
        assert other.returncode == 2
        assert f"another one runs on this machine (pid {process.pid})" in other.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143, (place.top / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    report = place.report()
    assert report["exit_code"] == 143
    assert [s["state"] for s in report["scenarios"]] == ["inconclusive", "not run"]  # type: ignore[attr-defined]
    assert "ended by" in str(report["reason"])
    assert list((place.top / "s").glob("*/undo.jsonl")) == []


def _wait_for(log: Path, text: str) -> None:
    end = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def _run_folder(place: Place, run_id: str, delay_ms: int) -> None:
    """A run's folder as ``chaosflow run`` leaves it, of made-up numbers."""
    base = sample("pass", run_id=run_id)
    scenario = {**base.scenario, "faults": [{"name": "jitter", "params": {"delay_ms": delay_ms}}]}
    result = base.model_copy(update={"scenario": scenario})
    folder = place.runs / run_id
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(result_json(result))
    with gzip.open(folder / CELLS_FILE, "wb") as file:
        for second in range(10):
            batch = CellBatch("w", second + 1, second * 1_000_000_000)
            batch.by_segment["baseline", "ttft"] = Histogram({1800: 20, 1805 + second % 3: 10})
            file.write(orjson.dumps(batch.to_wire()) + b"\n")
    assert record_run(result, folder, place.runs / "history.sqlite") == ""


def test_runs_of_different_setups_are_not_compared_unless_forced(place: Place) -> None:
    """pytest-benchmark 276: what differs is named."""
    _run_folder(place, "a", 20)
    _run_folder(place, "b", 45)
    refused = place.command("compare", "a", "b")
    assert refused.returncode == 2
    assert "faults.jitter.params.delay_ms: 20, then 45" in refused.stderr
    shutil.move(place.runs / "b", place.top / "b")
    forced = place.command("compare", "a", str(place.top / "b"), "--force", "--all")
    assert forced.returncode == 0, forced.stdout + forced.stderr
    assert "nothing says that b is worse than a" in forced.stdout
    missing = place.command("compare", "a", "c")
    assert missing.returncode == 2
    assert "there is no such run" in missing.stderr


def test_history_lists_as_table_and_json_and_forgets_on_demand(place: Place) -> None:
    _run_folder(place, "a", 20)
    _run_folder(place, "b", 20)
    table = place.command("history", "--name", "demo")
    assert [line[0] for line in table.stdout.splitlines()[1:3]] == ["a", "b"]
    listed = place.command("history", "--json")
    assert [json.loads(line)["run_id"] for line in listed.stdout.splitlines()] == ["a", "b"]
    assert "2 runs" in place.command("history", "--prune", "1d").stdout
    assert (place.runs / "a").is_dir()
