"""A run that was killed has a report all the same: ``chaosflow report`` makes it of what was written down."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from conftest_run import Place, place, scenario

from chaosflow.core.errors import UsageError
from chaosflow.core.fault import Undo
from chaosflow.core.journal import Journal
from chaosflow.orchestrator.rebuild import rebuild

__all__ = ["place"]
pytestmark = pytest.mark.slow
_FAULT = {"name": "jitter", "type": "proxy.latency", "duration": "60s", "params": {"delay_ms": 40}}


def _kill_in_mid_fault(place: Place) -> Path:
    running = place.start(
        scenario(faults=[_FAULT], probes=["engine"], sla={"objectives": ["ttft.p95 <= 30ms"], "window": "5s"})
    )
    running.until("injected and verified")
    before = place.chaosflow("report", str(running.folder))
    assert before.returncode == 2
    assert "still going on" in before.stderr
    folder = running.folder
    path, give_up_s = folder / "cells.jsonl.gz", time.monotonic() + 30
    size = path.stat().st_size if path.exists() else 0
    while not (path.exists() and path.stat().st_size > size + 1200):  # flushed every two seconds
        assert time.monotonic() < give_up_s, running.text
        time.sleep(0.05)
    running.process.kill()
    running.process.wait()
    _, left = place.wait_until_clean(10)
    assert not left
    return folder


def test_killed_run_is_reported_and_never_passes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOSFLOW_STATE_DIR", str(place.top / "s"))
    folder = _kill_in_mid_fault(place)
    done = place.chaosflow("report", str(folder))
    assert done.returncode in (1, 3), done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert result["killed"] is True
    assert "the run was killed after" in result["reason"]
    assert result["state"] in ("inconclusive", "fail")
    (fault,) = result["faults"]
    assert fault["confirmed"]
    assert fault["reverted"]
    assert "watchdog" in fault["revert_evidence"]
    assert {s["name"] for s in result["segments"]} >= {"warmup", "baseline", "jitter"}
    assert result["totals"]["requests"] > 5
    assert len(result["series"]["t_s"]) >= 3
    assert any(name.startswith("engine.") for name in result["probes"])
    assert {"series", "probes", "cells", "facts"} <= set(result["artifacts"])
    assert all((folder / path).exists() for path in result["artifacts"].values())
    assert result["worst"], "the worst requests come with the cells"
    assert result["started_utc"] < result["ended_utc"]
    assert "was killed" in (folder / "report.html").read_text()
    _it_is_in_the_history_once(place, folder)
    _mutilated_copies_are_reported_too(place, folder)
    _what_is_not_undone_beats_all(place, folder)


def _it_is_in_the_history_once(place: Place, folder: Path) -> None:
    again = place.chaosflow("report", "latest")
    assert again.returncode in (1, 3), again.stderr
    listed = place.chaosflow("history", "--json")
    assert listed.returncode == 0, listed.stderr
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [row["run_id"] for row in rows] == [folder.name]
    assert rows[0]["aborted"]
    copy = place.top / "copy"
    shutil.copytree(folder, copy)
    assert place.chaosflow("report", str(copy)).returncode in (1, 3)
    assert not (place.top / "history.sqlite").exists()
    shutil.rmtree(copy)


def _mutilated_copies_are_reported_too(place: Place, folder: Path) -> None:
    """Cells cut short, damaged or gone, no facts after the start, no probes, no events, no records."""

    def cut(name: str, share: float) -> None:
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[: int(len(data) * share)])

    def first_fact_only() -> None:
        path = copy / "facts.jsonl"
        path.write_text(path.read_text().splitlines()[0] + "\n")

    damages = {
        "cells cut": lambda: cut("cells.jsonl.gz", 0.6),
        "cells damaged": lambda: (copy / "cells.jsonl.gz").write_bytes(b"not gzip at all"),
        "cells gone": lambda: (copy / "cells.jsonl.gz").unlink(),
        "facts cut in a line": lambda: cut("facts.jsonl", 0.83),
        "killed before the load": first_fact_only,
        "nothing else": lambda: [shutil.rmtree(copy / "records"), (copy / "events.jsonl").unlink(), (copy / "probes.csv.gz").unlink()],
    }  # fmt: skip
    for name, damage in damages.items():
        copy = place.top / "copy"
        shutil.copytree(folder, copy)
        damage()
        result = rebuild(copy)
        assert result.killed, name
        assert result.state != "pass", name
        assert result.exit_code in (1, 3), name
        assert len(result.series.t_s) < 600, "seconds of the run, and not of the machine"
        shutil.rmtree(copy)
    copy = place.top / "copy"
    shutil.copytree(folder, copy)
    first_fact_only()
    assert "before its load began" in rebuild(copy).reason
    (copy / "facts.jsonl").unlink()
    with pytest.raises(UsageError, match="no facts"):
        rebuild(copy)


def _what_is_not_undone_beats_all(place: Place, folder: Path) -> None:
    journal = Journal.create(folder.name)
    undo = Undo(kind="proxy.latency", name="jitter", run_id=folder.name, manual="echo by hand")
    journal.plan(undo)
    journal.close(remove=False)
    result = rebuild(folder)
    assert result.exit_code == 5
    assert not result.faults[0].reverted
    assert "chaosflow heal" in " ".join(result.notes)
    shutil.rmtree(place.top / "s" / folder.name)
