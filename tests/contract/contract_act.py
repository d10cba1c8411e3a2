"""Run by the contract tests as a process of its own: ``contract_act.py inject|revert|active FILE``.

FILE holds ``{"atom": "module:Class", "params": …, "undo": …}``: only that module is imported. ``inject`` ends by SIGKILL, as an injector that dies at once.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path

from chaosflow.core.fault import FaultAtom, Undo


def main(what: str, file: str) -> None:
    given = json.loads(Path(file).read_text())
    undo = Undo.model_validate(given["undo"])
    module, _, name = given["atom"].partition(":")
    atom: type[FaultAtom] = getattr(importlib.import_module(module), name)
    if what == "inject":
        asyncio.run(atom.model_validate(given["params"]).inject(undo))
        os.kill(os.getpid(), signal.SIGKILL)
    asyncio.run(atom.revert(undo))


if __name__ == "__main__":
    main(*sys.argv[1:])
