"""``process.drain``: SIGTERM to the target, then wait for it to end as a rolling update does."""

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

_AFTER_KILL_S = 5.0


class ProcessDrain(FaultAtom):
    """Ask the target to go, as an orchestrator does: does it finish its streams, and how long does it take?

    It starts nothing again: that is the supervisor's work (for the included engine, its restart policy).
    """

    kind: ClassVar[str] = "process.drain"
    reversible: ClassVar[bool] = False
    composes: ClassVar[bool] = True
    acts_on: ClassVar[str] = "the target's processes"
    requires: ClassVar[str] = "the same user as the target, or root"
    cannot: ClassVar[str] = (
        "Starts nothing again. With `then: nothing`, a target that outlives `grace_s` is not confirmed"
    )

    grace_s: float = Field(30.0, gt=0, le=600)
    """How long the target may take to end by itself."""
    then: Literal["kill", "nothing"] = "kill"
    """What happens to what is left after ``grace_s``: SIGKILL, as by Kubernetes, or nothing."""
    scope: Scope = "pid"
    """Who gets SIGTERM: the roots alone (``pid``), or their descendants too (``tree``)."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"target:life"})

    def check(self, host: Host) -> Capability:
        capability = check_processes(host)
        return Capability.yes("SIGTERM by pidfd") if capability.ok else capability

    async def plan(self, host: Host, name: str) -> Undo:
        roots = require_processes(host, f"{self.kind} {name}")
        state = {"victims": to_json(procs.tree(roots)), "asked": to_json(in_scope(roots, self.scope))}
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state)

    async def inject(self, undo: Undo) -> None:
        """Returns when the target has ended, or was left alive after its grace."""
        victims, began = from_json(undo.state["victims"]), time.monotonic()
        for ref in from_json(undo.state["asked"]):
            procs.send(ref, signal.SIGTERM)
        left = await _wait_for(victims, self.grace_s)
        undo.state["took_s"] = time.monotonic() - began  # for the evidence; no undo needs it
        if left and self.then == "kill":
            undo.state["killed"] = procs.describe(left)
            for ref in procs.tree(left):
                procs.send(ref, signal.SIGKILL)
            await _wait_for(left, _AFTER_KILL_S)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        victims = from_json(undo.state["victims"])
        left = [ref for ref in victims if ref.alive()]
        took = f" {undo.state['took_s']:.2f} s after SIGTERM" if "took_s" in undo.state else ""
        if left:
            return Effect(
                False, f"{len(left)} of {len(victims)} processes still run{took}: {procs.describe(left)}"
            )
        if killed := undo.state.get("killed"):
            return Effect(True, f"{killed} had to be killed{took}")
        return Effect(True, f"{len(victims)} of {len(victims)} processes ended by themselves{took}")

    @staticmethod
    async def revert(undo: Undo) -> None:
        """Nothing can be put back, and nothing is pretended."""


async def _wait_for(refs: list[ProcessRef], seconds: float) -> list[ProcessRef]:
    """Those that are still alive after so long; returns early when none is."""
    deadline = time.monotonic() + seconds
    while (left := [ref for ref in refs if ref.alive()]) and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    return left
