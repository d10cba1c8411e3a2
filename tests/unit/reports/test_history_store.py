"""The history file: two writers, a newer version, media that cannot be written, and never a failed run."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sample_result import sample

from chaosflow.core.errors import UsageError
from chaosflow.reports.history import store
from chaosflow.reports.history.entry import Entry, differences, entry_of
from chaosflow.reports.history.metrics import change, change_words, matters, values_of
from chaosflow.reports.history.record import record_killed, record_run
from chaosflow.reports.history.store import History


def entry(run_id: str = "a", started: str = "2026-03-02T10:15:00Z") -> Entry:
    return entry_of(sample(run_id=run_id, started_utc=started), Path("/nowhere") / run_id)


def test_a_run_comes_back_as_it_went_in(tmp_path: Path) -> None:
    wanted = entry()
    with History.open(tmp_path / "h.sqlite") as history:
        history.add(wanted)
        assert history.entries() == [wanted]
        assert history.find("a") == wanted
        assert history.find("b") is None
    assert wanted.values["baseline", "ttft_p95_ms"].value > 0
    assert ("pause.recovery", "recovery_s") in wanted.values


def test_runs_come_oldest_first_by_name_and_the_last_so_many(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.sqlite") as history:
        for day in (3, 1, 2):
            history.add(entry(f"r{day}", f"2026-03-0{day}T10:00:00Z"))
        assert [e.run_id for e in history.entries("demo")] == ["r1", "r2", "r3"]
        assert [e.run_id for e in history.entries(last=2)] == ["r2", "r3"]
        assert history.entries("other") == []
        assert history.prune("2026-03-02T12:00:00Z") == 2
        assert [e.run_id for e in history.entries()] == ["r3"]
    with sqlite3.connect(tmp_path / "h.sqlite") as db:
        assert db.execute("SELECT count(DISTINCT run) FROM metric").fetchone() == (1,)
    db.close()


def test_the_same_run_again_replaces_its_row(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.sqlite") as history:
        history.add(entry())
        history.add(entry())
        assert len(history.entries()) == 1


@pytest.mark.slow
def test_many_processes_write_at_once_into_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_history_store import entry; from pathlib import Path\n"
        "from chaosflow.reports.history.store import History\n"
        "for i in range(5):\n"
        "    with History.open(Path(sys.argv[2])) as h: h.add(entry(f'{sys.argv[3]}-{i}'))\n"
    )
    path = tmp_path / "h.sqlite"

    def write(name: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(path), str(name)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(write, range(4)))
    assert [d.stderr for d in done if d.returncode] == []
    with History.open(path) as history:
        assert len(history.entries()) == 20


def test_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    History.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UsageError, match=r"schema version 99, this ChaosFlow knows up to \d+; use the newer"):
        History.open(path)
    assert "schema version 99" in record_run(sample(), tmp_path, path)


def test_an_older_file_is_brought_forward_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.add(entry())
    later = (*store.MIGRATIONS, "ALTER TABLE run ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'; ")
    monkeypatch.setattr(store, "MIGRATIONS", later)
    with History.open(path) as history:
        assert history.entries() == [entry()]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(later),)
        assert db.execute("SELECT colour FROM run").fetchone() == ("red",)
    db.close()


def test_a_migration_that_breaks_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.sqlite"
    History.open(path).close()
    monkeypatch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, "CREATE TABLE extra (x); CREATE NONSENSE"))
    with pytest.raises(UsageError, match="NONSENSE"):
        History.open(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(store.MIGRATIONS) - 1,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchall() == []
    db.close()


@pytest.mark.parametrize("content", [b"this is no database " * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_broken_file_becomes_a_note_of_the_run(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(content)
    note = record_run(sample(), tmp_path, path)
    assert note.startswith("not in the history: ")
    assert str(path) in note
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_made_becomes_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in record_run(sample(), tmp_path, tmp_path / "file" / "h.sqlite")


def test_a_full_disk_becomes_a_note(tmp_path: Path) -> None:
    assert record_run(sample(), tmp_path, Path("/dev/full")).startswith("not in the history: ")


def test_a_locked_file_becomes_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.sqlite"
    History.open(path).close()
    monkeypatch.setattr(store, "WAIT_S", 0.05)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    note = record_run(sample(), tmp_path, path)
    db.execute("ROLLBACK")
    db.close()
    assert "locked" in note
    assert "try again" in note


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something read-only")
def test_a_history_on_read_only_media_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "m" / "history.sqlite"
    with History.open(path) as history:
        history.add(entry())
    script = (
        f"mount --bind {path.parent} {path.parent} && mount -o remount,ro,bind {path.parent} && "
        f"{sys.executable} -m chaosflow history --history {path}"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "✗ fail" in done.stdout


def test_file_and_folders_can_move_together(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "a").mkdir(parents=True)
    with History.open(runs / "history.sqlite") as history:
        history.add(entry_of(sample(run_id="a"), runs / "a"))
    shutil.move(runs, tmp_path / "elsewhere")
    with History.open(tmp_path / "elsewhere" / "history.sqlite") as history:
        found = history.find("a")
        assert found is not None
        assert history.folder(found) == tmp_path / "elsewhere" / "a"
        shutil.rmtree(tmp_path / "elsewhere" / "a")
        assert history.folder(found) is None


def test_another_machine_or_setup_is_another_series_but_not_another_commit_or_limit() -> None:
    """pytest-benchmark 276: another CI machine breaks the comparison."""
    here = sample(
        environment={"cpu": "A", "cores": "2", "memory": "15.6 GiB", "kernel": "6.1.0-18", "git": "abc"}
    )

    def series(**environment: str) -> str:
        return entry_of(here.model_copy(update={"environment": {**here.environment, **environment}})).series

    own = entry_of(here).series
    assert series(git="def") == series(kernel="6.1.0-23") == series(memory="15.7 GiB") == own
    assert own not in (series(cpu="B"), series(kernel="6.5.0"), series(cores="4"))
    other = sample(scenario={**here.scenario, "sla": {"objectives": ["e2e.p99 <= 1s"]}})
    assert entry_of(other).setup == entry_of(here).setup
    faster = entry_of(sample(scenario={**here.scenario, "load": {"arrival": {"rate_per_s": 99}}}))
    assert any(text.startswith("load.") for text in differences(entry_of(here), faster))


def test_unsound_runs_stay_in_the_history_and_out_of_the_series() -> None:
    assert entry_of(sample("fail")).counts
    assert not entry_of(sample("invalid")).counts
    assert not entry_of(sample("inconclusive", exit_code=130)).counts
    assert not entry_of(sample("fail", aborted="error_rate > 50% for 10s")).counts
    assert not entry_of(sample("inconclusive", killed=True)).counts, "it ended in mid-measurement"


def test_a_killed_run_has_one_row_however_often_it_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    in_place = sample("inconclusive", killed=True, exit_code=5)
    for result in (in_place, in_place, sample("inconclusive", killed=True)):
        assert record_killed(result, tmp_path, path) == ""
    with History.open(path) as history:
        (row,) = history.entries()
    assert row.exit_code == 3, "by then its fault had been undone"
    assert not row.counts
    assert record_killed(in_place, tmp_path, Path("/dev/full")).startswith("not in the history: ")


def test_the_row_that_a_run_wrote_before_it_was_killed_stays(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    assert record_run(sample("pass"), tmp_path, path, "night-1") == ""
    assert record_killed(sample("inconclusive", killed=True), tmp_path, path) == ""
    with History.open(path) as history:
        (row,) = history.entries()
    assert (row.state, row.session) == ("pass", "night-1")


def test_a_percentile_without_samples_is_absent_and_not_0() -> None:
    """vllm-omni 6693: 0 would be the best of all times."""
    result = sample()
    result.segments[0].ttft.p95_ms = None
    result.segments[0].gap.n = 3
    values = values_of(result)
    assert ("baseline", "ttft_p95_ms") not in values
    assert ("baseline", "gap_p50_ms") not in values
    assert ("baseline", "e2e_p95_ms") in values


def test_a_change_is_the_same_size_there_and_back() -> None:
    assert change("e2e_p95_ms", 100, 125) == pytest.approx(0.25)
    assert change("e2e_p95_ms", 125, 100) == pytest.approx(-0.25)
    assert change("tokens_per_s", 125, 100) == pytest.approx(0.25)
    assert change("error_share", 0.01, 0.04) == pytest.approx(0.03)
    assert matters("error_share", 0.0, 0.02, 0.1)
    assert not matters("error_share", 0.001, 0.002, 0.1)
    assert not matters("ttft_p95_ms", 1.0, 1.3, 0.1), "0.3 ms is no matter, whatever it is in per cent"
    assert change_words("tokens_per_s", 100, 90) == "-10 %"
