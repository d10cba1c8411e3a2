"""Run by the contract tests as a process of its own: ``contract_act.py inject|revert|active FILE``.

FILE holds ``{"params": …, "undo": …}``. ``inject`` ends by SIGKILL, as an injector that dies at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import chaosflow.faults
from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.registry import Registry


def main(what: str, file: str) -> None:
    given = json.loads(Path(file).read_text())
    undo = Undo.model_validate(given["undo"])
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
    registry.scan(chaosflow.faults, "chaosflow.faults")
    atom = registry.get(undo.kind)
    if what == "inject":
        asyncio.run(atom.model_validate(given["params"]).inject(undo))
        os.kill(os.getpid(), signal.SIGKILL)
    asyncio.run(atom.revert(undo))


if __name__ == "__main__":
    main(*sys.argv[1:])
