"""Injects and reverts fault atoms: journal first, every step stamped, every effect verified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from chaosflow.core.clock import NS_PER_S, Clock
from chaosflow.core.fault import Capability, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.core.journal import Journal
from chaosflow.core.registry import Registry
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.orchestrator.heal import revert_verified

INJECT_WITHIN_S = 10.0
VERIFY_FOR_S = 3.0
"""How long an effect may take to show after ``inject`` returned."""
SHORT, TOO_SHORT = 0.5, 0.2
"""A fault that acted for less than these shares of its planned duration: noted, and not confirmed."""


@dataclass(slots=True)
class FaultRecord:
    """What happened to one fault; the stamps are monotonic ns."""

    name: str
    atom: FaultAtom
    planned_inject_ns: int
    planned_revert_ns: int | None
    capability: Capability
    undo: Undo | None = None
    entry: int = 0
    inject_begin_ns: int | None = None
    inject_ack_ns: int | None = None
    revert_begin_ns: int | None = None
    revert_ack_ns: int | None = None
    confirmed: bool = False
    evidence: str = ""
    reverted: bool = False
    revert_evidence: str = ""
    error: str = ""
    undo_failed: bool = False

    @property
    def cut_short(self) -> str:
        """Where a late or slow injection ate more than half of its duration: how long it acted; else empty.

        A fault that was reverted early, because the run ended, is not meant.
        """
        share = self._acted_share()
        if share is None or share >= SHORT:
            return ""
        begin_ns, ack_ns, due_ns = (
            self.inject_begin_ns or 0,
            self.inject_ack_ns or 0,
            self.planned_revert_ns or 0,
        )
        planned_s = (due_ns - self.planned_inject_ns) / NS_PER_S
        late_s = (begin_ns - self.planned_inject_ns) / NS_PER_S
        took_s = (ack_ns - begin_ns) / NS_PER_S
        return (
            f"acted {share * planned_s:.1f} of {planned_s:.1f} s: "
            f"its injection began {max(0.0, late_s):.1f} s late and took {took_s:.1f} s"
        )

    @property
    def hardly_acted(self) -> bool:
        """It was in place for so little of its time that nothing can be said of it."""
        share = self._acted_share()
        return share is not None and share < TOO_SHORT

    def _acted_share(self) -> float | None:
        """Of its planned duration, from acknowledged injection to its due revert; None = not (yet) known."""
        if self.planned_revert_ns is None or self.inject_ack_ns is None or self.revert_begin_ns is None:
            return None
        planned_ns = self.planned_revert_ns - self.planned_inject_ns
        if self.revert_begin_ns < self.planned_revert_ns or planned_ns <= 0:
            return None
        return (self.revert_begin_ns - self.inject_ack_ns) / planned_ns

    def told(self) -> dict[str, Any]:
        """All that a report needs of it and that the scenario does not tell, as plain data."""
        left_out = ("atom", "undo", "capability")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out} | {
            "manual": self.undo.manual if self.undo else "",
            "rung": self.capability.rung,
            "simulated": self.capability.simulated,
        }


class Injector:
    """The only one who mutates. ``announce`` gets every mark at the moment it is made."""

    def __init__(
        self, journal: Journal, atoms: Registry[FaultAtom], clock: Clock, announce: Callable[[Mark], None]
    ) -> None:
        self._journal, self._atoms, self._clock, self._announce = journal, atoms, clock, announce
        self._done: list[FaultRecord] = []
        self._reverting: dict[str, asyncio.Lock] = {}

    async def prepare(self, record: FaultRecord, host: Host) -> None:
        """Read the prior state and put it on disk. Mutates nothing else."""
        record.undo = await record.atom.plan(host, record.name)
        record.entry = self._journal.plan(record.undo)
        self._reverting[record.name] = asyncio.Lock()
        self._done.append(record)

    async def inject(self, record: FaultRecord) -> None:
        """Inject and verify. A fault that fails or does not show has ``confirmed`` False and ``error`` set."""
        assert record.undo is not None
        record.inject_begin_ns = self._mark(MarkKind.INJECT_BEGIN, record)
        try:
            await asyncio.wait_for(record.atom.inject(record.undo), INJECT_WITHIN_S)
            await asyncio.wait_for(self._verify(record), INJECT_WITHIN_S)
        except Exception as e:
            record.error = f"{type(e).__name__}: {e}"
        record.inject_ack_ns = self._mark(MarkKind.INJECT_ACK, record)
        if not record.atom.reversible:
            self._settle(record)

    async def _verify(self, record: FaultRecord) -> None:
        assert record.undo is not None
        give_up_ns = self._clock.now_ns() + int(VERIFY_FOR_S * 1e9)
        pause_s = 0.005
        while True:
            effect = await record.atom.is_active(record.undo)
            record.evidence = effect.evidence
            if effect.active:
                record.confirmed = True
                return
            if self._clock.now_ns() > give_up_ns:
                record.error = f"not in effect after {VERIFY_FOR_S:g} s: {effect.evidence}"
                return
            await asyncio.sleep(pause_s)
            pause_s = min(0.1, pause_s * 2)

    async def look_again(self, record: FaultRecord) -> None:
        """Verify once more, just before the revert: by now the effect has been measured under load."""
        if record.undo is None or not record.confirmed:
            return
        try:
            effect = await record.atom.is_active(record.undo)
        except Exception as e:
            record.confirmed, record.error = False, f"{type(e).__name__}: {e}"
            return
        record.evidence = effect.evidence
        if not effect.active:
            record.confirmed, record.error = False, f"the effect was lost: {effect.evidence}"
        elif not effect.met:
            record.confirmed, record.error = (
                False,
                f"in place all the time, with no effect: {effect.evidence}",
            )

    async def revert(self, record: FaultRecord) -> None:
        """Put back the prior state and see that it is back. Safe to call twice and at once."""
        assert record.undo is not None
        async with self._reverting[record.name]:
            if record.reverted:
                return
            if record.inject_begin_ns is not None and record.revert_begin_ns is None:
                record.revert_begin_ns = self._mark(MarkKind.REVERT_BEGIN, record)
                if record.confirmed and record.hardly_acted:
                    record.confirmed, record.error = False, record.cut_short
            try:
                record.revert_evidence = await revert_verified(record.undo, self._atoms)
            except Exception as e:
                record.undo_failed, record.error = True, str(e)
                return
            record.undo_failed = False
            self._settle(record)
            if record.revert_begin_ns is not None:
                record.revert_ack_ns = self._mark(MarkKind.REVERT_ACK, record)

    async def revert_all(self) -> None:
        """Everything that is not yet undone, the newest first. Goes on after a failure.

        What lives in the proxy is undone beside the rest: a proxy that hangs holds up nobody's server.
        """
        newest_first = self._done[::-1]
        in_proxy = [r for r in newest_first if r.atom.needs_proxy]
        elsewhere = [r for r in newest_first if not r.atom.needs_proxy]
        await asyncio.gather(self._revert_each(elsewhere), self._revert_each(in_proxy))

    async def _revert_each(self, records: Iterable[FaultRecord]) -> None:
        for record in records:
            await self.revert(record)

    def _settle(self, record: FaultRecord) -> None:
        record.reverted = True
        self._journal.reverted(record.entry)

    def _mark(self, kind: MarkKind, record: FaultRecord) -> int:
        now_ns = self._clock.now_ns()
        self._announce(Mark(kind, now_ns, record.name, record.atom.reversible))
        return now_ns
