"""A process of its own that injects or heals on demand, each time in a fork that knows nothing of the others.

One JSON object a line on stdin: ``{"do": "inject", "steps": …, "seed": …}`` answers with the fork's pid at
once; ``{"do": "reap", "pid": …}`` waits for its end; ``{"do": "heal"}`` heals all and answers with what failed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import random
import sys
from typing import Any

from chaosflow.core.clock import SystemClock
from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.core.host import Host
from chaosflow.core.journal import Journal
from chaosflow.core.registry import Registry
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.heal import heal_all
from chaosflow.orchestrator.injector import FaultRecord, Injector
from chaosflow.orchestrator.own import OwnHelpers


async def inject(order: dict[str, Any], atoms: Registry[FaultAtom]) -> None:
    """All the faults at random moments, each reverted after a random while; then once more."""
    dice = random.Random(order["seed"])
    journal = Journal.create(order["run_id"])
    journal.plan(OwnHelpers.undo(order["run_id"]))
    injector = Injector(journal, atoms, SystemClock(), lambda _: None)

    async def one(step: dict[str, Any], number: int) -> None:
        host: Host = pickle.loads(base64.b64decode(step["host"]))
        atom = atoms.get(step["kind"]).model_validate(step["params"])
        record = FaultRecord(f"{step['kind']}-{number}", atom, 0, 0, Capability.yes())
        await asyncio.sleep(dice.uniform(0, 0.2))
        await injector.prepare(record, host)
        await injector.inject(record)
        await asyncio.sleep(dice.uniform(0, 0.5))
        await injector.revert(record)

    for number in range(2):
        await asyncio.gather(*(one(step, number) for step in order["steps"]), return_exceptions=True)
    await injector.revert_all()
    await OwnHelpers.revert(OwnHelpers.undo(order["run_id"]))
    for entry in journal.pending():
        if entry.undo.kind == OwnHelpers.kind:
            journal.reverted(entry.number)
    journal.close(remove=not journal.pending())


def fork(work: Any) -> int:
    """Run a coroutine function in a child; returns its pid."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        asyncio.run(work())
        code = 0
    finally:
        os._exit(code)


def heal(atoms: Registry[FaultAtom]) -> list[str]:
    read, write = os.pipe()

    async def work() -> None:
        healed = await heal_all(atoms)
        os.write(write, json.dumps(healed.reasons).encode())

    pid = fork(work)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    reasons: list[str] = json.loads(text or b'["the healer died"]')
    return reasons


def main() -> None:
    atoms = load_atoms()
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = None
        if order["do"] == "inject":
            answer = fork(lambda order=order: inject(order, atoms))
        elif order["do"] == "reap":
            answer = os.waitstatus_to_exitcode(os.waitpid(order["pid"], 0)[1])
        else:
            answer = heal(atoms)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
