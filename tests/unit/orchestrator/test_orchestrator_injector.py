"""The injector: journal first, effect verified, LIFO undo, never a pass for what did not land."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from chaosflow.core.clock import NS_PER_S, SystemClock
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.journal import JOURNAL_FILE, Journal
from chaosflow.core.registry import Registry
from chaosflow.core.segments import Mark
from chaosflow.orchestrator import injector as module
from chaosflow.orchestrator.injector import FaultRecord, Injector

WORLD: dict[str, str] = {}
LOG: list[str] = []
ON_DISK: dict[str, bytes] = {}
"""The journal's file at the moment of an injection, read as another process would read it."""


class FlagFault(FaultAtom):
    """Sets a flag in a dictionary: a world small enough to look at whole."""

    kind: ClassVar[str] = "test.flag"
    works: bool = True
    reverts: bool = True
    fails: bool = False
    seen: bool = True

    def check(self, host: Host) -> Capability:
        return Capability.yes()

    async def plan(self, host: Host, name: str) -> Undo:
        return Undo(
            kind=self.kind,
            name=name,
            run_id=host.run_id,
            state={"reverts": self.reverts, "seen": self.seen},
            manual=f"unset {name}",
        )

    async def inject(self, undo: Undo) -> None:
        LOG.append(f"inject {undo.name}")
        ON_DISK[undo.name] = (Path(os.environ["CHAOSFLOW_STATE_DIR"]) / "r1" / JOURNAL_FILE).read_bytes()
        if self.works:
            WORLD[undo.name] = "on"
        if self.fails:
            raise OSError(17, "File exists")

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return Effect(undo.name in WORLD, f"flag is {WORLD.get(undo.name, 'off')}", undo.state["seen"])

    @staticmethod
    async def revert(undo: Undo) -> None:
        LOG.append(f"revert {undo.name}")
        if undo.state["reverts"]:
            WORLD.pop(undo.name, None)


class Rig:
    def __init__(self) -> None:
        self.journal = Journal.create("r1")
        self.atoms: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
        self.atoms._register(FlagFault)
        self.marks: list[Mark] = []
        self.injector = Injector(self.journal, self.atoms, SystemClock(), self.marks.append)

    async def do(self, name: str, atom: FlagFault) -> FaultRecord:
        record = FaultRecord(name, atom, 0, 1, Capability.yes())
        await self.injector.prepare(record, Host("r1", TargetHandle(True, "http://x/v1")))
        assert self.journal.pending()[0].undo.name == name, "on disk before anything changes"
        assert name not in WORLD
        await self.injector.inject(record)
        return record


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    WORLD.clear()
    LOG.clear()
    monkeypatch.setattr(module, "VERIFY_FOR_S", 0.05)
    with tempfile.TemporaryDirectory(prefix="cf-") as folder:
        monkeypatch.setenv("CHAOSFLOW_STATE_DIR", folder)
        made = Rig()
        yield made
        made.journal.close(remove=False)
        assert Path(folder).exists()


def test_undo_is_last_in_first_out_and_happens_once(rig: Rig) -> None:
    async def play() -> None:
        await rig.do("a", FlagFault())
        await rig.do("b", FlagFault())
        await asyncio.gather(rig.injector.revert_all(), rig.injector.revert_all())

    asyncio.run(play())
    assert LOG == ["inject a", "inject b", "revert b", "revert a"]
    assert WORLD == {}
    assert rig.journal.pending() == []


def test_a_call_that_succeeds_without_effect_is_not_confirmed(rig: Rig) -> None:
    """chaosd 273, open-gpu-kernel-modules 1314: success reported, nothing in effect."""
    record = asyncio.run(rig.do("a", FlagFault(works=False)))
    assert not record.confirmed
    assert "not in effect" in record.error
    assert "flag is off" in record.error


def test_an_effect_that_is_lost_in_mid_fault_is_seen(rig: Rig) -> None:
    async def play() -> FaultRecord:
        record = await rig.do("a", FlagFault())
        assert record.confirmed
        WORLD.clear()
        await rig.injector.look_again(record)
        return record

    record = asyncio.run(play())
    assert not record.confirmed
    assert "lost" in record.error


def test_what_met_no_traffic_until_its_end_is_not_confirmed(rig: Rig) -> None:
    """chaosd 273, chaosblade 1315: success reported, nothing in effect."""

    async def play() -> FaultRecord:
        record = await rig.do("a", FlagFault(seen=False))
        assert record.confirmed, "in place, and the load may still come"
        await rig.injector.look_again(record)
        await rig.injector.revert(record)
        return record

    record = asyncio.run(play())
    assert not record.confirmed
    assert "no effect: flag is on" in record.error
    assert record.reverted


def acted(rig: Rig, took_s: float, duration_s: float, reverted_s: float) -> FaultRecord:
    """A fault due at 0 s, acknowledged and reverted so late."""

    async def play() -> FaultRecord:
        record = await rig.do("a", FlagFault())
        now_ns = SystemClock().now_ns()
        record.planned_inject_ns = record.inject_begin_ns = now_ns - round(reverted_s * NS_PER_S)
        record.planned_revert_ns = record.planned_inject_ns + round(duration_s * NS_PER_S)
        record.inject_ack_ns = record.planned_inject_ns + round(took_s * NS_PER_S)
        await rig.injector.revert(record)
        return record

    return asyncio.run(play())


def test_a_fault_that_hardly_acted_is_not_confirmed(rig: Rig) -> None:
    """Its injection took 2.98 of its 3 s, it was in place for 15 ms, and nothing said so."""
    record = acted(rig, took_s=2.98, duration_s=3.0, reverted_s=3.0)
    assert not record.confirmed
    assert record.error == "acted 0.0 of 3.0 s: its injection began 0.0 s late and took 3.0 s"
    assert record.reverted


def test_a_fault_that_acted_for_less_than_half_its_time_says_so(rig: Rig) -> None:
    record = acted(rig, took_s=2.0, duration_s=3.0, reverted_s=3.0)
    assert record.confirmed
    assert record.cut_short.startswith("acted 1.0 of 3.0 s")
    assert not acted(rig, took_s=1.0, duration_s=3.0, reverted_s=3.0).cut_short


def test_a_fault_that_ended_early_with_its_run_was_not_cut_short_by_its_injection(rig: Rig) -> None:
    record = acted(rig, took_s=0.0, duration_s=30.0, reverted_s=1.0)
    assert record.confirmed
    assert not record.cut_short


def test_the_undo_is_on_disk_before_the_injection_begins(rig: Rig) -> None:
    """chaos-engineering-rs source: it journals after the injection, and a crash between loses the undo."""
    ON_DISK.clear()
    asyncio.run(rig.do("a", FlagFault()))
    lines = [json.loads(line) for line in ON_DISK["a"].rstrip(b"\0").splitlines()]
    assert [line["undo"]["name"] for line in lines] == ["a"]
    assert lines[0]["undo"]["manual"] == "unset a"


def test_an_injection_that_fails_half_way_is_no_success_and_is_undone(rig: Rig) -> None:
    """Chaos Mesh source, krkn source: an error counted only if it was the last, or if all failed."""

    async def play() -> FaultRecord:
        record = await rig.do("a", FlagFault(fails=True))
        await rig.injector.revert_all()
        return record

    record = asyncio.run(play())
    assert not record.confirmed, "the effect shows, and yet a step has failed"
    assert "File exists" in record.error
    assert record.reverted
    assert WORLD == {}


def test_a_revert_without_effect_is_told_with_the_manual_command_and_hides_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pumba: a revert that only warns and returns success; krkn: any failure counts."""
    monkeypatch.setattr("chaosflow.orchestrator.heal.ATTEMPTS", 2)

    async def play() -> tuple[FaultRecord, FaultRecord]:
        first = await rig.do("a", FlagFault())
        stuck = await rig.do("b", FlagFault(reverts=False))
        await rig.injector.revert_all()
        return first, stuck

    first, stuck = asyncio.run(play())
    assert stuck.undo_failed
    assert "unset b" in stuck.error
    assert first.reverted, "chaostoolkit: the failure of one does not skip the rest"
    assert [e.undo.name for e in rig.journal.pending()] == ["b"], "kept for heal"


def test_marks_bracket_every_change(rig: Rig) -> None:
    async def play() -> None:
        record = await rig.do("a", FlagFault())
        await rig.injector.revert(record)

    asyncio.run(play())
    assert [m.kind.value for m in rig.marks] == ["inject_begin", "inject_ack", "revert_begin", "revert_ack"]
    assert rig.marks == sorted(rig.marks, key=lambda m: m.at_ns)
