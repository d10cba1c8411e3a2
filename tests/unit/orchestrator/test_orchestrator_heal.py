"""Heal: what killed runs left, from a fresh process, each kind by its own rules."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.fault import Undo
from chaosflow.core.host import Host, ProcessRef, TargetHandle, state
from chaosflow.core.journal import Journal, journal_folders
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.heal import heal_all


@pytest.fixture(autouse=True)
def state_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cf-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        yield Path(folder)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def host(process: subprocess.Popen[bytes]) -> Host:
    ref = ProcessRef.of(process.pid)
    assert ref
    return Host("r1", TargetHandle(False, "http://127.0.0.1:1/v1", processes=(ref,)))


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP, and see it stopped: a process takes a signal only when it gets a CPU."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def abandon(*undos: Undo) -> None:
    """A journal whose run has died."""
    journal = Journal.create("r1")
    for undo in undos:
        journal.plan(undo)
    journal.close(remove=False)


def test_a_paused_process_goes_on(sleeper: subprocess.Popen[bytes]) -> None:
    atom = load_atoms().get("process.pause")()
    undo = asyncio.run(atom.plan(host(sleeper), "freeze"))
    abandon(undo)
    stop(sleeper)
    healed = asyncio.run(heal_all(load_atoms()))
    assert [u.name for u in healed.undone] == ["freeze"]
    assert state(sleeper.pid) in "SR"
    assert list(journal_folders()) == []


def test_what_was_undone_once_is_never_touched_again(sleeper: subprocess.Popen[bytes]) -> None:
    """chaosd 207: stale stored rules were applied again in later runs."""
    atoms = load_atoms()
    undo = asyncio.run(atoms.get("process.pause")().plan(host(sleeper), "freeze"))
    journal = Journal.create("r1")
    journal.reverted(journal.plan(undo))
    journal.close(remove=False)  # the run was killed just before it would have removed its journal
    stop(sleeper)  # somebody else's, since
    for _ in range(2):
        healed = asyncio.run(heal_all(atoms))
        assert (healed.undone, healed.failed) == ([], [])
        assert list(journal_folders()) == [], "state is empty after a run"
    assert state(sleeper.pid) == "T"


def test_a_kill_has_nothing_to_put_back_and_does_not_fail_for_ever(sleeper: subprocess.Popen[bytes]) -> None:
    atom = load_atoms().get("process.kill")()
    undo = asyncio.run(atom.plan(host(sleeper), "crash"))
    abandon(undo)
    sleeper.kill()
    sleeper.wait()
    healed = asyncio.run(heal_all(load_atoms()))
    assert not healed.failed
    assert list(journal_folders()) == []


def test_a_reboot_has_undone_what_does_not_survive_it() -> None:
    abandon(
        Undo(kind="process.pause", name="freeze", run_id="r1", state={"roots": "never read"}, boot="another")
    )
    healed = asyncio.run(heal_all(load_atoms()))
    assert not healed.failed
    assert list(journal_folders()) == []


def test_what_cannot_be_undone_stays_in_the_journal_with_its_reason() -> None:
    abandon(Undo(kind="somebody.elses", name="x", run_id="r1", manual="undo-by-hand"))
    healed = asyncio.run(heal_all(load_atoms()))
    assert [u.manual for u in healed.failed] == ["undo-by-hand"]
    assert "plug-in" in healed.reasons[0]
    assert len(list(journal_folders())) == 1


def test_one_failure_does_not_stop_the_others(sleeper: subprocess.Popen[bytes]) -> None:
    """krkn: any failure counts; chaostoolkit: none hides another."""
    atom = load_atoms().get("process.pause")()
    undo = asyncio.run(atom.plan(host(sleeper), "freeze"))
    abandon(undo, Undo(kind="somebody.elses", name="x", run_id="r1"))
    stop(sleeper)
    healed = asyncio.run(heal_all(load_atoms()))
    assert len(healed.failed) == 1
    assert state(sleeper.pid) in "SR"
