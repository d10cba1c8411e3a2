"""The undo journal: on disk before anything is changed, readable after any crash."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.core.fault import Undo
from chaosflow.core.journal import Journal, journal_folders


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cf-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        yield Path(folder)


def undo(name: str) -> Undo:
    return Undo(kind="process.pause", name=name, run_id="r1", state={"pids": [1, 2]}, manual="kill -CONT 1 2")


def test_pending_entries_come_newest_first_and_survive_reopening(state: Path) -> None:
    journal = Journal.create("r1")
    first, second = journal.plan(undo("a")), journal.plan(undo("b"))
    third = journal.plan(undo("c"))
    journal.reverted(second)
    journal.close(remove=False)
    again = Journal.open_abandoned(state / "r1")
    assert again is not None
    assert [e.number for e in again.pending()] == [third, first]
    assert again.pending()[0].undo == undo("c")
    again.reverted(third)
    again.reverted(first)
    again.close(remove=True)
    assert not (state / "r1").exists(), "chaosd 207: state is empty after a run"


def test_a_live_run_is_left_alone(state: Path) -> None:
    journal = Journal.create("r1")
    assert list(journal_folders()) == [state / "r1"]
    assert Journal.open_abandoned(state / "r1") is None
    journal.close(remove=True)


def test_the_lock_is_not_inherited_by_children(state: Path) -> None:
    journal = Journal.create("r1")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        os.close(journal._fd)  # what a kill -9 does
        give_up = time.monotonic() + 2  # a vforked child closes its descriptors a moment after we go on
        while (again := Journal.open_abandoned(state / "r1")) is None:
            assert time.monotonic() < give_up
        again.close(remove=True)
        child.communicate(b"\n")


def test_a_torn_last_line_is_ignored_and_overwritten(state: Path) -> None:
    """A crash in mid-write: what the torn line announces was never done."""
    journal = Journal.create("r1")
    journal.plan(undo("a"))
    line = json.dumps({"plan": 2, "undo": undo("b").model_dump()}).encode()
    os.pwrite(journal._fd, line[:40], journal._end)
    journal.close(remove=False)
    again = Journal.open_abandoned(state / "r1")
    assert again is not None
    assert [e.undo.name for e in again.pending()] == ["a"]
    again.plan(undo("c"))
    again.close(remove=False)
    third = Journal.open_abandoned(state / "r1")
    assert third is not None
    assert [e.undo.name for e in third.pending()] == ["c", "a"]
    third.close(remove=False)


def test_the_file_is_preallocated_so_that_a_full_disk_cannot_block_an_undo(state: Path) -> None:
    journal = Journal.create("r1")
    assert os.fstat(journal._fd).st_blocks * 512 >= 1 << 20
    journal.close(remove=True)


def test_a_state_folder_that_cannot_be_made_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOSFLOW_STATE_DIR", "/proc/nowhere")
    with pytest.raises(ChaosflowError, match="CHAOSFLOW_STATE_DIR"):
        Journal.create("r1")


def test_a_path_too_long_for_sockets_is_refused_before_anything_starts(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOSFLOW_STATE_DIR", str(state / ("x" * 90)))
    with pytest.raises(UsageError, match="too long"):
        Journal.create("r1")


def test_two_journals_lock_independently(state: Path) -> None:
    one, two = Journal.create("r1"), Journal.create("r2")
    fd = os.open(state / "r1" / "undo.jsonl", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    one.close(remove=True)
    two.close(remove=True)
