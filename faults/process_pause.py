"""``process.pause``: SIGSTOP to the target's processes, SIGCONT to those same ones on revert."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import ClassVar

from chaosflow.core.errors import UndoError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, ProcessRef, state
from chaosflow.faults._target import (
    Scope,
    check_processes,
    from_json,
    in_scope,
    require_processes,
    to_json,
)
from chaosflow.linux import procs

_SETTLE_S = 2.0
_STOPPED = ("T", "t")


class ProcessPause(FaultAtom):
    """Stop the target as a debugger or an overcommitted hypervisor would: sockets stay open, nothing moves.

    A process that was stopped before is neither stopped nor continued.
    """

    kind: ClassVar[str] = "process.pause"
    aliases: ClassVar[tuple[str, ...]] = ("process.stop",)
    acts_on: ClassVar[str] = "SIGSTOP to the target's processes, SIGCONT to those same ones"
    requires: ClassVar[str] = "the same user as the target, or root"
    cannot: ClassVar[str] = "A child whose parent died before the injection is not found"
    undone_by: ClassVar[str] = "kill -CONT to each process of the target"

    scope: Scope = "tree"
    """``tree``: the target's processes and all their descendants; ``pid``: the roots alone."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"target:run-state"})

    def check(self, host: Host) -> Capability:
        capability = check_processes(host)
        return Capability.yes("SIGSTOP and SIGCONT by pidfd") if capability.ok else capability

    async def plan(self, host: Host, name: str) -> Undo:
        roots = require_processes(host, f"{self.kind} {name}")
        found = in_scope(roots, self.scope)
        before = [ref for ref in found if state(ref.pid) in _STOPPED]
        ours = [ref for ref in found if ref not in before]
        return Undo(
            kind=self.kind,
            name=name,
            run_id=host.run_id,
            state={
                "roots": to_json(roots),
                "scope": self.scope,
                "ours": to_json(ours),
                "stopped_before": to_json(before),
            },
            manual="kill -CONT " + " ".join(str(ref.pid) for ref in ours),
        )

    async def inject(self, undo: Undo) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while running := [ref for ref in _ours(undo) if state(ref.pid) not in _STOPPED]:
            for (
                ref
            ) in running:  # again, until a whole pass finds nothing that runs: children are born meanwhile
                procs.send(ref, signal.SIGSTOP)
            if time.monotonic() > deadline:
                return  # is_active names what would not stop
            await asyncio.sleep(0.002)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        found = _ours(undo)
        stopped = [ref for ref in found if state(ref.pid) in _STOPPED]
        text = f"{len(stopped)} of {len(found)} processes stopped"
        running = [ref for ref in found if ref not in stopped]
        if stopped and running:
            text += f"; still running: {procs.describe(running)}"
        if not found:
            text = "none of the processes is alive"
        return Effect(bool(found) and not running, text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while stopped := [ref for ref in _ours(undo) if state(ref.pid) == "T"]:
            for ref in stopped:
                procs.send(ref, signal.SIGCONT)
            if time.monotonic() > deadline:  # is_active would call a tree half continued "not active"
                raise UndoError(
                    f"{undo.kind} {undo.name}", f"still stopped: {procs.describe(stopped)}", undo.manual
                )
            await asyncio.sleep(0.002)


def _ours(undo: Undo) -> list[ProcessRef]:
    """What this fault stops: known when planned, or in the trees now; never what was stopped before."""
    known, roots = from_json(undo.state["ours"]), from_json(undo.state["roots"])
    before = from_json(undo.state["stopped_before"])
    # known ones count as roots too: a root may have died and left its children behind
    found = in_scope(dict.fromkeys([*roots, *known]), undo.state["scope"])
    return [ref for ref in found if ref not in before]
