"""``process.kill``: end the target's processes by a signal. Nothing to revert: its recovery is measured."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import ClassVar, Literal

from pydantic import Field

from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, ProcessRef
from chaosflow.faults._target import Scope, check_processes, from_json, in_scope, require_processes, to_json
from chaosflow.linux import procs

_RESCAN_S = 2.0


class ProcessKill(FaultAtom):
    """Kill the target as the OOM killer, a crash or an impatient supervisor would.

    It starts nothing again: that is the supervisor's work (for the included engine, its restart policy).
    """

    kind: ClassVar[str] = "process.kill"
    reversible: ClassVar[bool] = False
    composes: ClassVar[bool] = True
    acts_on: ClassVar[str] = "the target's processes"
    requires: ClassVar[str] = "the same user as the target, or root"
    cannot: ClassVar[str] = "A process that outlives the signal for `grace_s` = not confirmed"

    signal: Literal["KILL", "TERM", "INT", "HUP", "QUIT", "ABRT", "SEGV"] = "KILL"
    scope: Scope = "tree"
    """``tree``: the target's processes and all their descendants; ``pid``: the roots alone."""
    grace_s: float = Field(5.0, gt=0, le=120)
    """How long the processes may take to end before the fault counts as not confirmed."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"target:life"})

    def check(self, host: Host) -> Capability:
        capability = check_processes(host)
        return Capability.yes(f"SIG{self.signal} by pidfd") if capability.ok else capability

    async def plan(self, host: Host, name: str) -> Undo:
        roots = require_processes(host, f"{self.kind} {name}")
        found = in_scope(roots, self.scope)
        state = {"victims": to_json(found), "signal": self.signal, "grace_s": self.grace_s}
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state)

    async def inject(self, undo: Undo) -> None:
        signum = signal.Signals["SIG" + undo.state["signal"]]
        victims = from_json(undo.state["victims"])
        everything = self.scope == "tree"
        sent: set[ProcessRef] = set()
        deadline = time.monotonic() + _RESCAN_S
        # children are listed before their parents die, and again after: some are born in between
        while targets := [ref for ref in _with_children(victims, everything) if ref not in sent]:
            victims += [ref for ref in targets if ref not in victims]
            for ref in targets:
                procs.send(ref, signum)
                sent.add(ref)
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        victims = from_json(undo.state["victims"])
        start = time.monotonic()
        while left := [ref for ref in victims if ref.alive()]:
            if time.monotonic() - start > undo.state["grace_s"]:
                return Effect(
                    False,
                    f"{len(left)} of {len(victims)} processes still run {undo.state['grace_s']:g} s after "
                    f"SIG{undo.state['signal']}: {procs.describe(left)}",
                )
            await asyncio.sleep(0.005)
        return Effect(True, f"{len(victims)} of {len(victims)} processes ended by SIG{undo.state['signal']}")

    @staticmethod
    async def revert(undo: Undo) -> None:
        """Nothing can be put back, and nothing is pretended."""


def _with_children(victims: list[ProcessRef], everything: bool) -> list[ProcessRef]:
    return procs.tree(victims) if everything else [ref for ref in victims if ref.alive()]
