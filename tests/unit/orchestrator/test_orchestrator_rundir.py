"""The folder of a run: secrets never, a full disk survived, names that sort and fit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaosflow.core.errors import UsageError
from chaosflow.core.slots import CellBatch
from chaosflow.orchestrator.rundir import Redactor, RunDir, new_run_id


def test_every_string_is_redacted_keys_included_and_short_secrets_tear_no_holes() -> None:
    redactor = Redactor({"s3cr3t-key", "1"})
    assert redactor.data({"a s3cr3t-key": ["x", "Bearer s3cr3t-key", 1], "n": "11"}) == {
        "a ***": ["x", "Bearer ***", 1],
        "n": "11",
    }


def test_ids_sort_by_time_and_leave_room_for_sockets() -> None:
    one = new_run_id("x" * 64)
    assert len(one) <= 53
    assert one[:8].isdigit()
    assert new_run_id("a") != new_run_id("a")


def test_events_are_on_disk_at_once(tmp_path: Path) -> None:
    troubles: list[str] = []
    folder = RunDir.create(tmp_path, "r", Redactor({"hidden-word"}), troubles.append)
    folder.event(1.5, "note", "a hidden-word")
    assert json.loads((tmp_path / "r" / "events.jsonl").read_text()) == {
        "at_s": 1.5,
        "what": "note",
        "text": "a ***",
    }
    folder.close()
    assert troubles == []


def test_a_disk_that_fills_up_stops_the_writing_and_is_told_once(tmp_path: Path) -> None:
    troubles: list[str] = []
    folder = RunDir.create(tmp_path, "r", Redactor(()), troubles.append)
    os.symlink("/dev/full", tmp_path / "r" / "events.jsonl")
    for _ in range(3):
        folder.event(0, "note", "x")
    folder.cells(CellBatch("0", 1, 0))
    folder.close()
    assert len(troubles) == 1
    assert "events.jsonl" in troubles[0]
    assert (tmp_path / "r" / "cells.jsonl.gz").stat().st_size > 0, "one full file does not stop the others"


def test_a_place_that_cannot_be_written_is_refused_with_a_remedy() -> None:
    with pytest.raises(UsageError, match="--runs-dir"):
        RunDir.create(Path("/proc"), "r", Redactor(()), print)
