"""Outlives a killed orchestrator and undoes what it left: ``python -m chaosflow.watchdog FOLDER``.

In a session of its own, so that no signal of the terminal reaches it. Its standard input is a pipe that
only the orchestrator holds: end of file means that the orchestrator is gone, however it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from chaosflow.core.fault import FaultAtom
from chaosflow.core.registry import Registry
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.heal import Healed, heal_folder, revert_verified

LOCK_WAIT_S = 5.0
LOOK_AGAIN_S = 0.5


def main(argv: list[str]) -> int:
    """Wait for the end of the orchestrator, then heal its journal. 0 = nothing is left behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a shutdown reaches us last of all
    folder = Path(argv[0])
    atoms = load_atoms()  # now, not when every millisecond counts
    with contextlib.suppress(OSError):  # whoever waits for this line may be dead by now
        os.write(sys.stdout.fileno(), b'{"watching": true}\n')
    while sys.stdin.buffer.read(1):
        pass
    return asyncio.run(_heal(folder, atoms))


async def _heal(folder: Path, atoms: Registry[FaultAtom]) -> int:
    healed = Healed()
    give_up = time.monotonic() + LOCK_WAIT_S
    while folder.exists() and not await heal_folder(folder, atoms, healed):
        if time.monotonic() > give_up:
            return 1  # somebody else holds the journal, and undoes it
        await asyncio.sleep(0.02)
    if healed.runs:
        await asyncio.sleep(LOOK_AGAIN_S)
        for (
            undo
        ) in healed.undone:  # what was in mid-fork or mid-inject when its parent died may have come back
            await revert_verified(undo, atoms)
    for reason in healed.reasons:
        with contextlib.suppress(OSError):  # a full disk under its log
            sys.stderr.write(f"watchdog: {reason}\n")
    return 1 if healed.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
