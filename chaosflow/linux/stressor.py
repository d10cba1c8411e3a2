"""Helper processes that put pressure on the machine for one fault: started, looked at, ended as a whole.

Each is tied to its parent by the launcher, carries run and fault in its environment, and lives in a cgroup
of the fault's own where that can be made. Its standard output is a memfd in which it reports what it does:
read through /proc/<pid>/fd/1 by any process of the same user, on no disk, gone with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaosflow.core.errors import CapabilityError, UndoError
from chaosflow.core.host import RUN_VARIABLE, ProcessRef
from chaosflow.linux import cgroup, launcher, procs

FAULT_VARIABLE = "CHAOSFLOW_FAULT"
"""Environment variable of a fault's helpers: ``<run id>/<fault>``."""
_END_S = 5.0
_ours: set[int] = set()
"""Children of this process, to be reaped."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One living helper and its latest report."""

    ref: ProcessRef
    report: dict[str, Any]


def plan(run_id: str, fault: str, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What ``start`` and ``end`` need, as JSON: one command for each helper. Reads only."""
    name = f"{run_id}.{fault}"
    folders = cgroup.run_folders(name, cgroup.HOLDING) if cgroup.can_create() else {}
    return {
        "run_id": run_id,
        "fault": fault,
        "cgroup": name,
        "folders": {controller: str(folder) for controller, folder in folders.items()},
        "commands": [list(command) for command in commands],
    }


def manual(state: dict[str, Any]) -> str:
    """A shell command that does what ``end`` does."""
    marker = f"^{_marker(state)}$"
    kill = f"grep -lzs '{marker}' /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -KILL"
    folders = " ".join(state["folders"].values())
    return f"{kill}; sleep 1; for d in {folders}; do rmdir $d; done" if folders else kill


async def start(state: dict[str, Any], ready_within_s: float) -> None:
    """Start the helpers and wait until each has reported; from the main thread only.

    Raises CapabilityError with the last words of one that ended or stayed silent.
    """
    # PR_SET_PDEATHSIG fires when the thread that forked ends
    assert threading.current_thread() is threading.main_thread()
    folders = cgroup.create_run_cgroup(state["cgroup"], state["folders"]) if state["folders"] else {}
    if state["folders"] and not folders:
        raise CapabilityError(state["fault"], "no cgroup can be made for its helpers", "run as root")
    started: dict[int, int] = {}
    try:
        for command in state["commands"]:
            errors = os.memfd_create("chaosflow-errors")
            started[_spawn(state, folders, command, errors)] = errors
        deadline = time.monotonic() + ready_within_s
        while not all(_report(pid) for pid in started):
            for pid, errors in started.items():
                if _reap(pid):
                    raise CapabilityError(
                        f"helper of {state['fault']}", _last_words(errors) or "ended at once"
                    )
            if time.monotonic() > deadline:
                raise CapabilityError(f"helpers of {state['fault']}", f"not ready in {ready_within_s:g} s")
            await asyncio.sleep(0.005)
    finally:
        for errors in started.values():
            os.close(errors)


def _spawn(state: dict[str, Any], folders: dict[str, Path], command: Sequence[str], errors: int) -> int:
    options = ["--parent", str(os.getpid())]
    for folder in folders.values():
        options += ["--cgroup", str(folder)]
    argv = [sys.executable, "-I", "-S", launcher.__file__, *options, "--", *command]
    name, _, value = _marker(state).partition("=")
    environment = {**os.environ, RUN_VARIABLE: state["run_id"], name: value}
    report = os.memfd_create("chaosflow-report")
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, report, 1),
                (os.POSIX_SPAWN_DUP2, errors, 2),
            ],
            setsigmask=[],
        )
    finally:
        os.close(report)
    _ours.add(pid)
    return pid


def workers(state: dict[str, Any]) -> list[Worker]:
    """The living helpers that have reported, from any process. Changes nothing."""
    return [Worker(ref, report) for ref in _find(state) if (report := _report(ref.pid))]


def _find(state: dict[str, Any]) -> list[ProcessRef]:
    return procs.by_environment(_marker(state))


def _marker(state: dict[str, Any]) -> str:
    return f"{FAULT_VARIABLE}={state['run_id']}/{state['fault']}"


def _report(pid: int) -> dict[str, Any]:
    """What a helper last wrote; {} while it has written nothing, or is gone."""
    for _ in range(5):  # it may be in the middle of a write
        try:
            text = Path(f"/proc/{pid}/fd/1").read_bytes()
        except OSError:
            return {}
        if not text.strip():
            return {}
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(text)
            return found
    return {}


def _last_words(errors: int) -> str:
    text = os.pread(errors, 1 << 16, 0).decode(errors="replace").strip()
    return text.splitlines()[-1] if text else ""


def _reap(pid: int) -> bool:
    """Whether our child has ended; it is no zombie then."""
    try:
        done = os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        done = True
    if done:
        _ours.discard(pid)
    return done


async def end(state: dict[str, Any]) -> None:
    """Kill the helpers and all that they started, remove their cgroup. Idempotent, from any process.

    Raises UndoError when one is still there after 5 s.
    """
    deadline = time.monotonic() + _END_S
    while left := _find(state):
        for ref in left:
            procs.send(ref, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise UndoError(state["fault"], f"still running: {procs.describe(left)}", manual(state))
        await asyncio.sleep(0.005)
    if state["folders"]:
        await asyncio.to_thread(cgroup.kill_and_remove, state["folders"])
    for pid in list(_ours):
        _reap(pid)
