"""The conductor: what comes after a fault comes after its revert, also where everything is late."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from chaosflow.core.clock import NS_PER_S, SystemClock
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.journal import Journal
from chaosflow.core.registry import Registry
from chaosflow.core.scenario import Scenario
from chaosflow.core.segments import Mark
from chaosflow.orchestrator.conductor import Conductor
from chaosflow.orchestrator.injector import FaultRecord, Injector
from chaosflow.orchestrator.stopping import Stop
from chaosflow.orchestrator.timeline import build_timeline

WORLD: dict[str, int] = {}
LOG: list[str] = []


class LevelFault(FaultAtom):
    """Holds a level and puts back the one it found, as a limit on a cgroup does; ``slow_s`` to look."""

    kind: ClassVar[str] = "test.level"
    level: int
    slow_s: float = 0.0
    inject_s: float = 0.0

    def check(self, host: Host) -> Capability:
        return Capability.yes()

    async def plan(self, host: Host, name: str) -> Undo:
        state = {
            "prior": WORLD["level"],
            "level": self.level,
            "slow_s": self.slow_s,
            "inject_s": self.inject_s,
        }
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual="")

    async def inject(self, undo: Undo) -> None:
        LOG.append(f"inject {undo.name}")
        await asyncio.sleep(undo.state["inject_s"])
        WORLD["level"] = undo.state["level"]

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        await asyncio.sleep(undo.state["slow_s"])
        return Effect(WORLD["level"] == undo.state["level"], f"level {WORLD['level']}", True)

    @staticmethod
    async def revert(undo: Undo) -> None:
        LOG.append(f"revert {undo.name}")
        WORLD["level"] = undo.state["prior"]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    WORLD["level"] = 100
    LOG.clear()
    with tempfile.TemporaryDirectory(prefix="cf-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        made = Journal.create("r1")
        yield made
        made.close(remove=False)


def _play(journal: Journal, faults: list[dict[str, Any]], ends: str = "") -> list[FaultRecord]:
    """``ends``: the words with which the run must be ended early."""
    scenario = Scenario.model_validate(
        {
            "target": {"engine": {"backend": "sim"}},
            "load": {"arrival": {"kind": "constant", "rate_per_s": 1}},
            "phases": {"warmup": 0, "baseline": 1, "recovery": 0.1},
            "faults": [{"type": "test.level", **fault} for fault in faults],
            "sla": {"objectives": ["error_rate <= 50%"]},
        }
    )
    atoms = {fault.name: LevelFault.model_validate(fault.params) for fault in scenario.faults}
    known: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
    known._register(LevelFault)

    async def play() -> list[FaultRecord]:
        clock, marks = SystemClock(), list[Mark]()
        stop = Stop(clock)
        conductor = Conductor(
            build_timeline(scenario, atoms),
            {name: Capability.yes() for name in atoms},
            Injector(journal, known, clock, marks.append),
            lambda: Host("r1", TargetHandle(True, "http://x/v1")),
            marks.append,
            stop,
            clock,
            clock.now_ns() + NS_PER_S // 20,
        )
        await conductor.play(lambda: None)
        assert (stop.end is None) if not ends else (stop.end and ends in stop.end.text), stop.end
        return conductor.records

    return asyncio.run(play())


@pytest.mark.slow
def test_the_state_to_put_back_is_not_that_of_the_fault_before(journal: Journal) -> None:
    """``after: X.revert`` on one resource: planned while X acted, its undo put X back for good."""
    records = _play(
        journal,
        [
            {"name": "a", "duration": 0.4, "params": {"level": 30}},
            {"name": "b", "after": "a.revert", "duration": 0.4, "params": {"level": 60}},
        ],
    )
    assert LOG == ["inject a", "revert a", "inject b", "revert b"]
    assert all(record.confirmed and record.reverted for record in records)
    assert WORLD == {"level": 100}


@pytest.mark.slow
def test_a_late_revert_holds_up_what_comes_after_it(journal: Journal) -> None:
    """On a starved machine a look that took seconds let the next fault begin within this one."""
    records = _play(
        journal,
        [
            {"name": "a", "duration": 0.3, "params": {"level": 30, "slow_s": 0.6}},
            {"name": "b", "after": "a", "duration": 2, "params": {"level": 60}},
        ],
    )
    assert LOG == ["inject a", "revert a", "inject b", "revert b"]
    assert all(record.reverted for record in records)
    assert WORLD == {"level": 100}


@pytest.mark.slow
def test_an_injection_that_eats_its_faults_duration_ends_the_run(journal: Journal) -> None:
    """15 ms of 3 s in place, confirmed, and judged as if it had acted."""
    faults = [{"name": "a", "duration": 0.4, "params": {"level": 30, "inject_s": 0.4}}]
    (record,) = _play(journal, faults, ends="fault a was not confirmed: acted 0.")
    assert not record.confirmed
    assert record.reverted
    assert WORLD == {"level": 100}
