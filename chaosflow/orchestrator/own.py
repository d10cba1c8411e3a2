"""What a run itself puts into the world, undone by the same journal as its faults."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Protocol

from chaosflow.core.errors import UsageError
from chaosflow.core.fault import Effect, FaultAtom, Undo
from chaosflow.core.registry import Registry
from chaosflow.linux import cgroup, procs


class Reverter(Protocol):
    """The static half of a fault atom: all that an undo needs."""

    @staticmethod
    async def is_active(undo: Undo) -> Effect: ...

    @staticmethod
    async def revert(undo: Undo) -> None: ...


class OwnHelpers:
    """Every process that this run started, found by the run's id in its environment."""

    kind = "own.helpers"

    @staticmethod
    def undo(run_id: str) -> Undo:
        return Undo(
            kind=OwnHelpers.kind,
            name="helper processes",
            run_id=run_id,
            manual=f"grep -lz '^CHAOSFLOW_RUN={run_id}$' /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -KILL",
        )

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        left = procs.by_env_marker(undo.run_id)
        return Effect(bool(left), f"{len(left)} helper processes left")

    @staticmethod
    async def revert(undo: Undo) -> None:
        for _ in range(40):  # a dying helper may still be forking
            left = procs.by_env_marker(undo.run_id)
            if not left:
                return
            for ref in left:
                procs.send(ref, signal.SIGKILL)
            await asyncio.sleep(0.025)


class OwnCgroup:
    """The cgroup in which the included engine lives, ``chaosflow/<run>`` in every hierarchy."""

    kind = "own.cgroup"

    @staticmethod
    def undo(run_id: str) -> Undo:
        where = " ".join(str(folder) for folder in _folders(run_id).values())
        return Undo(kind=OwnCgroup.kind, name="cgroup of the engine", run_id=run_id, manual=f"rmdir {where}")

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        left = [folder for folder in _folders(undo.run_id).values() if folder.exists()]
        return Effect(bool(left), f"{len(left)} cgroup folders left")

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(cgroup.kill_and_remove, _folders(undo.run_id))


def _folders(run_id: str) -> dict[str, Path]:
    """Where the run's cgroup is, or would be."""
    return {controller: mount / cgroup.TOP / run_id for controller, mount in cgroup.layout().mounts.items()}


_OWN: dict[str, type[Reverter]] = {OwnHelpers.kind: OwnHelpers, OwnCgroup.kind: OwnCgroup}


def reverter(kind: str, atoms: Registry[FaultAtom]) -> type[Reverter]:
    """Who can undo entries of this kind; UsageError when its plug-in is not installed any more."""
    if kind in _OWN:
        return _OWN[kind]
    try:
        return atoms.get(kind)
    except UsageError as e:
        raise UsageError(
            f"undo of {kind}",
            "no atom of that kind is installed",
            "install its plug-in again, then run: chaosflow heal",
        ) from e
