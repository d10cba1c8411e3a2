"""process.pause and process.kill on real trees."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from process_rig import five_processes, host_of, ref_of, started, wait_for

from chaosflow.core.fault import Undo
from chaosflow.core.host import ProcessRef, state
from chaosflow.faults.process_kill import ProcessKill
from chaosflow.faults.process_pause import ProcessPause
from chaosflow.linux import procs


def _paused(atom: ProcessPause, process: subprocess.Popen[bytes]) -> Undo:
    undo = asyncio.run(atom.plan(host_of(process), "pause"))
    asyncio.run(atom.inject(undo))
    return undo


def _states(process: subprocess.Popen[bytes]) -> list[str]:
    return [state(ref.pid) for ref in procs.tree([ref_of(process)])]


def test_a_stopped_target_is_resumed_with_its_whole_tree() -> None:
    """chaosblade 398: the SIGSTOP target was not resumed."""
    with five_processes() as process:
        undo = _paused(ProcessPause(), process)
        assert _states(process) == ["T"] * 5
        assert asyncio.run(ProcessPause.is_active(undo)).evidence == "5 of 5 processes stopped"
        asyncio.run(ProcessPause.revert(undo))
        wait_for(lambda: "T" not in _states(process), "all running again")


def test_what_was_stopped_before_is_not_continued() -> None:
    with five_processes() as process:
        victim = procs.tree([ref_of(process)])[-1]
        os.kill(victim.pid, signal.SIGSTOP)
        wait_for(lambda: state(victim.pid) == "T", "stopped by hand")
        undo = _paused(ProcessPause(), process)
        assert asyncio.run(ProcessPause.is_active(undo)).evidence == "4 of 4 processes stopped"
        asyncio.run(ProcessPause.revert(undo))
        assert state(victim.pid) == "T"
        assert _states(process).count("T") == 1


def test_scope_pid_stops_the_root_alone() -> None:
    with five_processes() as process:
        undo = _paused(ProcessPause(scope="pid"), process)
        assert _states(process).count("T") == 1
        asyncio.run(ProcessPause.revert(undo))
        assert "T" not in _states(process)


@pytest.mark.slow
def test_children_born_while_it_stops_are_stopped_too() -> None:
    busy = "import subprocess\nwhile True: subprocess.Popen(['sleep', '1000'])"
    with started(sys.executable, "-c", busy, size=20) as process:
        undo = _paused(ProcessPause(), process)
        first = _states(process)
        # D: a parent in vfork waits, uninterruptibly, for its child, which is stopped
        assert {"T"} <= set(first) <= {"T", "D"}
        assert len(_states(process)) == len(first)
        asyncio.run(ProcessPause.revert(undo))
        assert state(process.pid) != "T"


def test_a_killed_target_needs_no_undo() -> None:
    """litmus-go 591, chaos-mesh 4827: the target restarts, and revert cannot find it."""
    with five_processes() as process:
        undo = _paused(ProcessPause(), process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        asyncio.run(ProcessPause.revert(undo))
        assert not asyncio.run(ProcessPause.is_active(undo))


def test_a_child_whose_parent_was_killed_is_continued() -> None:
    with five_processes() as process:
        members = procs.tree([ref_of(process)])
        undo = _paused(ProcessPause(), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        orphan = members[1]
        asyncio.run(ProcessPause.revert(undo))
        assert state(orphan.pid) not in ("T", "")


def test_a_reused_pid_is_never_touched() -> None:
    with started("sleep", "1000") as process, started("sleep", "1000") as bystander:
        undo = asyncio.run(ProcessPause().plan(host_of(process), "pause"))
        stale = ProcessRef(bystander.pid, ref_of(bystander).start_ticks - 1).to_json()
        undo = undo.model_copy(update={"state": {**undo.state, "roots": [stale], "ours": [stale]}})
        asyncio.run(ProcessPause().inject(undo))
        assert state(bystander.pid) != "T"
        os.kill(bystander.pid, signal.SIGSTOP)
        wait_for(lambda: state(bystander.pid) == "T", "stopped by somebody else")
        asyncio.run(ProcessPause.revert(undo))
        assert state(bystander.pid) == "T"


def test_somebody_who_continues_it_is_noticed() -> None:
    """chaosd 273: success reported, nothing in effect."""
    with five_processes() as process:
        undo = _paused(ProcessPause(), process)
        os.kill(process.pid, signal.SIGCONT)
        wait_for(lambda: state(process.pid) != "T", "continued behind our back")
        effect = asyncio.run(ProcessPause.is_active(undo))
        assert not effect
        assert f"still running: sh ({process.pid})" in effect.evidence
        asyncio.run(ProcessPause.revert(undo))


def test_check_says_what_is_missing() -> None:
    unknown = replace(host_of(None), target=replace(host_of(None).target, selector=""))
    capability = ProcessPause().check(unknown)
    assert not capability.ok
    assert "target.process" in capability.remedy
    assert ProcessPause().check(replace(unknown, planning=True)).ok is False
    with started("sleep", "1000") as process:
        host = host_of(process)
        assert ProcessPause().check(host).ok
    assert "is alive" in ProcessPause().check(host).reason


def test_a_tree_that_contains_ourselves_is_refused() -> None:
    own = ProcessRef.of(os.getppid())
    assert own
    host = host_of(None)
    host = replace(host, target=replace(host.target, processes=(own,)))
    capability = ProcessKill().check(host)
    assert not capability.ok
    assert "contains ChaosFlow itself" in capability.reason


@pytest.mark.parametrize("name", ["KILL", "TERM", "HUP", "INT", "QUIT", "ABRT", "SEGV"])
def test_every_signal_ends_the_target(name: str) -> None:
    with started(sys.executable, "-c", f"import signal, time\nsignal.signal(signal.SIG{name}, signal.SIG_DFL)\ntime.sleep(1000)" if name != "KILL" else "import time; time.sleep(1000)") as process:  # fmt: skip
        time.sleep(0.3)  # for its handlers
        atom = ProcessKill(signal=name)  # type: ignore[arg-type]
        undo = asyncio.run(atom.plan(host_of(process), "kill"))
        asyncio.run(atom.inject(undo))
        assert asyncio.run(ProcessKill.is_active(undo))
        assert process.wait(5) == -signal.Signals[f"SIG{name}"]


def test_the_whole_tree_dies_and_not_only_its_root() -> None:
    with five_processes() as process:
        members = procs.tree([ref_of(process)])
        undo = asyncio.run(ProcessKill().plan(host_of(process), "kill"))
        asyncio.run(ProcessKill().inject(undo))
        effect = asyncio.run(ProcessKill.is_active(undo))
        assert effect.evidence == "5 of 5 processes ended by SIGKILL"
        assert not any(ref.alive() for ref in members)


@pytest.mark.slow
def test_a_target_that_ignores_the_signal_is_not_confirmed() -> None:
    """chaosblade 1073: HUP ignored."""
    with started("sh", "-c", "trap '' HUP; sleep 1000 & wait", size=2) as process:
        atom = ProcessKill(signal="HUP", scope="pid", grace_s=0.2)
        undo = asyncio.run(atom.plan(host_of(process), "kill"))
        asyncio.run(atom.inject(undo))
        effect = asyncio.run(ProcessKill.is_active(undo))
        assert not effect
        assert "1 of 1 processes still run 0.2 s after SIGHUP" in effect.evidence


def test_a_paused_target_can_be_killed() -> None:
    with five_processes() as process:
        pause = _paused(ProcessPause(), process)
        undo = asyncio.run(ProcessKill().plan(host_of(process), "kill"))
        asyncio.run(ProcessKill().inject(undo))
        assert asyncio.run(ProcessKill.is_active(undo))
        asyncio.run(ProcessPause.revert(pause))
