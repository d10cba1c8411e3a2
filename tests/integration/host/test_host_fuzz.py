"""kill -9 of an injector at a random instant, with random faults: a fresh process leaves nothing behind.

pumba 147, chaosd 207, litmus 2359: each is one instant, or one fault, of this test.
"""

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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_rigs import CANNOT_HERE, NEED_ROOT, RIGS
from host_rig import RUN, helpers_left, swept

from chaosflow.core.host import RUN_VARIABLE
from chaosflow.linux import procs
from chaosflow.orchestrator.catalogue import load_atoms

sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))

pytestmark = pytest.mark.slow
_ATOMS = load_atoms()
_GONE_WITHIN_S = 5.0


def _kinds() -> list[str]:
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


@pytest.fixture
def zygote() -> Iterator[Zygote]:
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


def _once(zygote: Zygote, seed: int) -> None:
    dice = random.Random(seed)
    kinds = dice.sample(_kinds(), dice.randint(2, 4))
    with contextlib.ExitStack() as stack:
        rigs = {kind: stack.enter_context(RIGS[kind]()) for kind in kinds}
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
        story, deadline = f"seed {seed}: {', '.join(kinds)}", time.monotonic() + _GONE_WITHIN_S
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


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_a_random_instant_leaves_nothing(zygote: Zygote, seed: int) -> None:
    _once(zygote, seed)


@pytest.mark.soak
def test_three_hundred_kills_at_random_instants_leave_nothing(zygote: Zygote) -> None:
    for seed in range(1000, 1300):
        _once(zygote, seed)
