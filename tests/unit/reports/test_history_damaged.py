"""Files that are no history, or one that somebody else wrote into: refused in words, and left as they are."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from chaosflow.core.errors import UsageError
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import Value
from chaosflow.reports.history.store import History
from chaosflow.reports.writer import load_result


def _made(path: Path, *statements: str) -> Path:
    values = {("baseline", "ttft_p95_ms"): Value(12.0, 40)}
    entry = Entry("run-1", "demo", "pass", 0, "all hold", "2026-11-03T00:00:00Z", 60.0, values=values)
    with History.open(path) as history:
        history.add(entry)
    _sql(path, *statements)
    return path


def _sql(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def test_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    _sql(path, "CREATE TABLE customers (name TEXT)")
    before = path.read_bytes()
    for how in (History.open, History.read):
        with pytest.raises(UsageError, match="a database of something else"):
            how(path)
    assert path.read_bytes() == before


def test_version_below_zero_is_refused(tmp_path: Path) -> None:
    path = _made(tmp_path / "h.sqlite", "PRAGMA user_version = -3")
    with pytest.raises(UsageError, match="schema version -3"):
        History.open(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE run SET fingerprint = '{'",
        "UPDATE run SET setup = '5'",
        "UPDATE run SET wall_s = 'long'",
        "UPDATE run SET exit_code = 'y'",
        "UPDATE run SET started_utc = x'ff00'",
        "UPDATE metric SET value = 'fast'",
    ],
)
def test_row_of_wrong_values_is_named(tmp_path: Path, damage: str) -> None:
    path = _made(tmp_path / "h.sqlite", damage)
    with History.read(path) as history, pytest.raises(UsageError, match=r"malformed: .*row|malformed: run"):
        history.entries()


def test_folder_in_the_historys_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no regular file"):
        History.read(tmp_path)


def test_result_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(UsageError, match="no regular file"):
        load_result(tmp_path)


def test_result_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("[" * 200_000)
    with pytest.raises(UsageError, match="cannot be read"):
        load_result(tmp_path)
