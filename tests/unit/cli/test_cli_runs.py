"""Which run is meant by a folder, an id, the beginning of one, or ``latest``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chaosflow.cli.runs import history_of, run_folder
from chaosflow.core.errors import UsageError
from chaosflow.reports.history.record import record_run
from chaosflow.reports.history.store import HISTORY_FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
from sample_result import sample

FIRST, SECOND = "20261129-120000-chat-aaaa", "20261129-120501-chat-bbbb"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs, a nightly's own folder that is newer, and a history."""
    for name, file in (
        (FIRST, "result.json"),
        (SECOND, "scenario.json"),
        ("20261130-000000-nightly-cccc", "nightly.json"),
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / file).touch()
    (tmp_path / "runs" / HISTORY_FILE).touch()
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        (FIRST, FIRST),
        (SECOND, SECOND),
        ("20261129-1205", SECOND),
        ("20261129-12000", FIRST),
        ("latest", SECOND),
    ],
)
def test_an_id_its_beginning_and_the_latest(runs: Path, word: str, meant: str) -> None:
    """A killed run is one too, and a nightly's own folder is none."""
    assert run_folder(Path(word), runs) == runs / meant
    assert run_folder(runs / FIRST, runs) == runs / FIRST


def test_an_ambiguous_beginning_names_the_candidates(runs: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_folder(Path("2026"), runs)
    assert "2 runs begin so" in str(caught.value)
    assert FIRST in str(caught.value)
    assert SECOND in str(caught.value)
    for number in range(20):
        (runs / f"20261129-13{number:04d}-chat-dddd").mkdir()
        (runs / f"20261129-13{number:04d}-chat-dddd" / "result.json").touch()
    with pytest.raises(UsageError, match="and 16 more"):
        run_folder(Path("2026"), runs)


def test_an_id_is_itself_although_another_begins_so(runs: Path) -> None:
    (runs / f"{FIRST}-copy").mkdir()
    (runs / f"{FIRST}-copy" / "result.json").touch()
    assert run_folder(Path(FIRST), runs) == runs / FIRST


@pytest.mark.parametrize("word", ["nothing-like-it", "2027", "a/b"])
def test_what_is_no_run_says_what_may_be_written(runs: Path, word: str) -> None:
    with pytest.raises(UsageError, match=r"(?s)there is no such run.*latest"):
        run_folder(Path(word), runs)
    with pytest.raises(UsageError, match="there is no run below"):
        run_folder(Path("latest"), runs / "elsewhere")


def test_the_points_of_a_sweep_are_runs_and_of_one_second_the_later_is_the_latest(runs: Path) -> None:
    for number, name in enumerate(("20261130-010000-b-0002", "20261130-010000-a-0001")):
        (runs / "20261130-005959-sweep-eeee" / name).mkdir(parents=True)
        file = runs / "20261130-005959-sweep-eeee" / name / "scenario.json"
        file.touch()
        os.utime(file, ns=(number, number))
    assert run_folder(Path("latest"), runs).name == "20261130-010000-a-0001"
    assert run_folder(Path("20261130-010000-b"), runs).parent.name == "20261130-005959-sweep-eeee"


def test_what_lies_elsewhere_is_found_by_the_history(tmp_path: Path) -> None:
    folder = tmp_path / "other" / FIRST
    folder.mkdir(parents=True)
    history = tmp_path / "h.sqlite"
    assert record_run(sample(run_id=FIRST), folder, history) == ""
    assert run_folder(Path("20261129-12"), tmp_path / "runs", history) == folder
    history.write_text("broken")
    with pytest.raises(UsageError, match="no such run"):
        run_folder(Path(FIRST), tmp_path / "runs", history)


def test_a_run_belongs_to_the_history_of_its_runs(runs: Path, tmp_path: Path) -> None:
    assert history_of(runs / FIRST, runs, None) == runs / HISTORY_FILE
    assert history_of(runs / "sweep" / FIRST, runs, None) == runs / HISTORY_FILE
    assert history_of(runs / FIRST, runs, tmp_path / "h") == tmp_path / "h"
    assert history_of(runs / FIRST, Path("runs"), None) == runs / HISTORY_FILE, (
        "beside it, where it is elsewhere"
    )
    (runs / HISTORY_FILE).unlink()
    assert history_of(runs / FIRST, Path("runs"), None) is None, "looking at a copy begins none"
