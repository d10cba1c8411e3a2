"""Put back what a run left behind that was killed: at the start of every run, as a command, and by the watchdog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaosflow.core.errors import ChaosflowError, UndoError
from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.host import boot_id
from chaosflow.core.journal import Journal, journal_folders
from chaosflow.core.registry import Registry
from chaosflow.orchestrator.own import OwnHelpers, reverter

ATTEMPTS = 5
LOCK_SETTLES_S = 0.2
ATTEMPT_WITHIN_S = 10.0
"""A helper that hangs must not hold up what else is to be undone."""


@dataclass(slots=True)
class Healed:
    """What was found and what became of it, in words."""

    runs: list[str] = field(default_factory=list)
    undone: list[Undo] = field(default_factory=list)
    failed: list[Undo] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


async def heal_all(atoms: Registry[FaultAtom]) -> Healed:
    """Undo everything that runs which are no longer alive left behind. Leaves live runs alone."""
    healed = Healed()
    locked = [folder for folder in journal_folders() if not await heal_folder(folder, atoms, healed)]
    if locked:
        # a helper that was forked just before a kill -9 holds the lock until its exec: not a live run
        await asyncio.sleep(LOCK_SETTLES_S)
        for folder in locked:
            await heal_folder(folder, atoms, healed)
    return healed


async def heal_first(atoms: Registry[FaultAtom], tell: Callable[[str], None]) -> None:
    """What everything begins with: undo what killed runs left, and tell of it. Raises UndoError where it cannot."""
    healed = await heal_all(atoms)
    for undo in healed.undone:
        tell(f"undid what a killed run left: {undo.kind} {undo.name}")
    if healed.failed:
        manual = "; ".join(undo.manual for undo in healed.failed)
        raise UndoError(
            "heal",
            f"an earlier run left what cannot be undone: {'; '.join(healed.reasons)}",
            f"by hand: {manual}",
        )
    for reason in healed.reasons:
        tell(reason)


async def heal_folder(folder: Path, atoms: Registry[FaultAtom], healed: Healed) -> bool:
    """Undo one run's leftovers; False when its run is alive (the lock is held) or the journal is gone."""
    try:
        journal = Journal.open_abandoned(folder)
    except (OSError, ChaosflowError) as e:
        healed.reasons.append(
            f"{folder}: {e}; look at it, undo by hand what it tells, then remove the folder"
        )
        return True
    if journal is None:
        return False
    healed.runs.append(folder.name)
    try:
        await _heal_journal(journal, atoms, healed)
    finally:
        journal.close(remove=not journal.pending())
    return True


async def _heal_journal(journal: Journal, atoms: Registry[FaultAtom], healed: Healed) -> None:
    pending = journal.pending()
    for entry in pending:
        if entry.undo.kind == OwnHelpers.kind and entry.undo.boot == boot_id():
            await OwnHelpers.revert(entry.undo)  # first of all: nothing may go on mutating
    for entry in pending:
        if entry.undo.boot != boot_id() and not entry.undo.survives_reboot:
            journal.reverted(entry.number)  # the reboot undid it
            continue
        try:
            await revert_verified(entry.undo, atoms)
        except Exception as e:
            healed.failed.append(entry.undo)
            healed.reasons.append(f"{entry.undo.kind} {entry.undo.name}: {e}")
        else:
            journal.reverted(entry.number)
            healed.undone.append(entry.undo)


async def revert_verified(undo: Undo, atoms: Registry[FaultAtom]) -> str:
    """Revert until the effect is seen to be gone; returns what was seen.

    Raises ChaosflowError when it is still there after several attempts.
    """
    who = reverter(undo.kind, atoms)
    if not getattr(who, "reversible", True):
        return "nothing to put back"  # what a kill did cannot be undone, and is_active would say so for ever
    problem = "still in effect"
    for attempt in range(ATTEMPTS):
        try:
            await asyncio.wait_for(who.revert(undo), ATTEMPT_WITHIN_S)
            effect = await asyncio.wait_for(who.is_active(undo), ATTEMPT_WITHIN_S)
            if not effect:
                return effect.evidence
            problem = f"still in effect: {effect.evidence}"
        except Exception as e:
            problem = f"{type(e).__name__}: {e}"
        await asyncio.sleep(0.05 * 2**attempt)
    raise ChaosflowError(
        f"undo of {undo.kind} {undo.name}", problem, f"by hand: {undo.manual}" if undo.manual else ""
    )
