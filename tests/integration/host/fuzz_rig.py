"""What random kills need: an injector to kill, a healer, and a look at the world before and after."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from contract_rigs import CANNOT_HERE, NEED_ROOT, RIGS, Rig
from host_rig import RUN, helpers_left, swept

from chaosflow.core.host import RUN_VARIABLE
from chaosflow.linux import procs
from chaosflow.orchestrator.catalogue import load_atoms

_ATOMS = load_atoms()
_GONE_WITHIN_S = 5.0


def kinds() -> list[str]:
    """Everything that can be put back, without the proxy's: that proxy ends with its run."""
    atoms = {kind: _ATOMS.get(kind) for kind in _ATOMS.names() if kind in RIGS}
    return [
        kind
        for kind, atom in atoms.items()
        if atom.reversible
        and not atom.needs_proxy
        and not CANNOT_HERE.get(kind)
        and (os.geteuid() == 0 or kind not in NEED_ROOT)
    ]


class Zygote:
    """fuzz_injector.py, with journals in a folder of their own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fuzz_injector.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CHAOSFLOW_STATE_DIR": str(state)},
        )

    def ask(self, **order: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate(timeout=10)


@contextlib.contextmanager
def a_zygote() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory(prefix="cf-", dir="/tmp") as folder, swept():
        made = Zygote(Path(folder))
        try:
            yield made
        finally:
            made.end()


def _world() -> str:
    """What a fault may change outside the targets, as text without counters."""
    lines = [
        *helpers_left(),
        *(f"process {ref.pid}" for ref in procs.by_environment(f"{RUN_VARIABLE}={RUN}")),
    ]
    for command in ("tc qdisc show", "nft list ruleset", "ip -o link show type ifb"):
        if shutil.which(command.split()[0]):
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            lines += re.sub(r"(packets|bytes) \d+", "", done.stdout).splitlines()
    return "\n".join(lines)


@contextlib.contextmanager
def some_rigs(seed: int) -> Iterator[dict[str, Rig]]:
    """Of two to four kinds, each with a target of its own."""
    dice = random.Random(seed)
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(RIGS[kind]()) for kind in dice.sample(kinds(), dice.randint(2, 4))}


def once(zygote: Zygote, seed: int, rigs: Mapping[str, Rig]) -> None:
    """Inject these faults, kill the injector at a random instant, heal: all is as it was before."""
    dice = random.Random(seed + 1_000_000)
    before, world = {kind: rig.look() for kind, rig in rigs.items()}, _world()
    steps = [
        {
            "kind": kind,
            "params": rig.params,
            "host": base64.b64encode(pickle.dumps(replace(rig.host, run_id=RUN))).decode(),
        }
        for kind, rig in rigs.items()
    ]
    pid = zygote.ask(do="inject", run_id=RUN, steps=steps, seed=seed)
    time.sleep(dice.uniform(0, 1.0))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    zygote.ask(do="reap", pid=pid)
    story, deadline = f"seed {seed}: {', '.join(rigs)}", time.monotonic() + _GONE_WITHIN_S
    while True:
        # again, as the watchdog does: a helper that was being started when its parent died holds the
        # journal's lock until it execs
        reasons = zygote.ask(do="heal")
        assert not reasons, f"{story}: {reasons}"
        left = [str(path) for path in zygote.state.glob("*/undo.jsonl")]
        now = {kind: rig.look() for kind, rig in rigs.items()}
        if not left and now == before and _world() == world:
            return
        assert time.monotonic() < deadline, f"{story}\n{left}\n{before}\n{now}\n{world}\n--\n{_world()}"
        time.sleep(0.02)
