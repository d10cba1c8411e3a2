"""Plays the timeline: baseline, every fault at its time, every recovery, on one monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from chaosflow.core.clock import NS_PER_S, Clock
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.orchestrator.injector import FaultRecord, Injector
from chaosflow.orchestrator.stopping import Stop, Why
from chaosflow.orchestrator.timeline import Step, Timeline

APART_NS = 2_000_000
"""Between two reverts that are due at one instant: last in, first out."""
PLAN_AHEAD_NS = NS_PER_S // 4
"""The prior state is read this long before the injection is due."""


class Conductor:
    """One run's timeline. ``records`` hold what happened to each fault, in order of the plan."""

    def __init__(
        self,
        timeline: Timeline,
        capabilities: Mapping[str, Capability],
        injector: Injector,
        host: Callable[[], Host],
        announce: Callable[[Mark], None],
        stop: Stop,
        clock: Clock,
        load_begin_ns: int,
    ) -> None:
        self._timeline, self._injector, self._host = timeline, injector, host
        self._announce, self._stop, self._clock = announce, stop, clock
        self.baseline_begin_ns = load_begin_ns + int(timeline.warmup_s * NS_PER_S)
        self.zero_ns = self.baseline_begin_ns + int(timeline.baseline_s * NS_PER_S)
        self.end_ns = self.zero_ns + int(timeline.end_s * NS_PER_S)
        self.records = [self._record(step, capabilities[step.name]) for step in timeline.steps]
        self._over = {step.name: asyncio.Event() for step in timeline.steps}

    def _record(self, step: Step, capability: Capability) -> FaultRecord:
        revert_ns = None if step.revert_s is None else self._at(step.revert_s) + APART_NS * self._later(step)
        return FaultRecord(step.name, step.atom, self._at(step.inject_s), revert_ns, capability)

    def _later(self, step: Step) -> int:
        """How many faults are to be reverted at the same instant before this one."""
        steps = self._timeline.steps
        behind = steps[steps.index(step) + 1 :]
        return sum(other.revert_s == step.revert_s for other in behind)

    def _at(self, seconds: float) -> int:
        return self.zero_ns + int(seconds * NS_PER_S)

    async def play(self, baseline_is_bad: Callable[[], str | None]) -> None:
        """Returns when the timeline has ended, or early when the run is asked to stop.

        Reverts each fault at its time; what is still active on an early return is left to
        ``Injector.revert_all``.
        """
        self._announce(Mark(MarkKind.BASELINE_BEGIN, self.baseline_begin_ns))
        prepared = [
            asyncio.create_task(self._step(s, r))
            for s, r in zip(self._timeline.steps, self.records, strict=True)
        ]
        in_time = await self._stop.sleep_until(self.zero_ns - NS_PER_S // 20)
        if in_time and (reason := baseline_is_bad()):
            self._stop.ask(Why.BAD_BASELINE, reason)
        if await self._stop.sleep_until(self.zero_ns):
            self._announce(Mark(MarkKind.BASELINE_END, self.zero_ns))
        for outcome in await asyncio.gather(*prepared, return_exceptions=True):
            if isinstance(outcome, Exception):
                self._stop.ask(Why.ERROR, f"{type(outcome).__name__}: {outcome}")
        await self._stop.sleep_until(self.end_ns)

    async def _step(self, step: Step, record: FaultRecord) -> None:
        try:
            await self._inject_and_revert(step, record)
        finally:
            self._over[step.name].set()
        if record.confirmed:
            await self._watch_recovery(step, record)

    async def _inject_and_revert(self, step: Step, record: FaultRecord) -> None:
        if not await self._stop.sleep_until(record.planned_inject_ns - PLAN_AHEAD_NS):
            return
        await self._until_earlier_ones_are_over(step)
        try:
            await self._injector.prepare(record, self._host())
        except Exception as e:
            record.error = f"{type(e).__name__}: {e}"
            self._stop.ask(Why.NOT_CONFIRMED, f"fault {record.name} could not be planned: {record.error}")
            return
        if not await self._stop.sleep_until(record.planned_inject_ns):
            return
        await self._injector.inject(record)
        if not record.confirmed:
            self._stop.ask(
                Why.NOT_CONFIRMED, f"fault {record.name} ({step.atom.kind}) was not confirmed: {record.error}"
            )
            return
        if record.planned_revert_ns is not None:
            await self._hold_and_revert(record, record.planned_revert_ns)

    async def _until_earlier_ones_are_over(self, step: Step) -> None:
        # else what one of them did would be read as the state to put back; and a late revert holds up the next
        for earlier in self._timeline.steps:
            if earlier.revert_s is not None and earlier.revert_s <= step.inject_s:
                await self._over[earlier.name].wait()

    async def _hold_and_revert(self, record: FaultRecord, revert_ns: int) -> None:
        # looking again must not delay the revert: begin early enough
        if not await self._stop.sleep_until(revert_ns - NS_PER_S // 5):
            return
        await self._injector.look_again(record)
        if record.confirmed and await self._stop.sleep_until(revert_ns):
            await self._injector.revert(record)
        if not record.confirmed:
            self._stop.ask(Why.NOT_CONFIRMED, f"fault {record.name} was not confirmed: {record.error}")

    async def _watch_recovery(self, step: Step, record: FaultRecord) -> None:
        if record.undo_failed:
            self._stop.ask(Why.ERROR, f"fault {record.name} could not be undone: {record.error}")
            return
        since_ns = record.revert_ack_ns if record.atom.reversible else record.inject_ack_ns
        watch_s = step.recovery_end_s - (step.inject_s if step.revert_s is None else step.revert_s)
        if since_ns is None:
            return
        until_ns = since_ns + int(watch_s * NS_PER_S)
        if await self._stop.sleep_until(until_ns):
            self._announce(Mark(MarkKind.RECOVERY_END, until_ns, record.name, record.atom.reversible))
