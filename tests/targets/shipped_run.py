"""A shipped scenario by its bare name, shortened by ``--set``, and what a run may not leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from target_run import FinishedRun, finished_run

from chaosflow.core.host import RUN_VARIABLE, state
from chaosflow.linux import cgroup


def run_shipped(
    name: str, changes: Mapping[str, Any], folder: Path, timeout_s: float = 120
) -> tuple[FinishedRun, list[str]]:
    """The finished run and, in words, what it left in the world (waited for, 5 s at most).

    ``changes`` are dotted paths and their values, as ``--set`` takes them. The run's journal has a folder of
    its own, so that runs of other tests are not looked at.
    """
    before = _devices_and_tables()
    journals = Path(tempfile.mkdtemp(prefix="cf-", dir="/tmp"))  # short: sockets lie below it
    sets = [word for path, value in changes.items() for word in ("--set", f"{path}={value}")]
    try:
        run = finished_run([name, *sets], folder / "runs", timeout_s, {"CHAOSFLOW_STATE_DIR": str(journals)})
        give_up = time.monotonic() + 5
        while (left := _left(run.folder.name, journals, before)) and time.monotonic() < give_up:
            time.sleep(0.05)
        return run, left
    finally:
        shutil.rmtree(journals, ignore_errors=True)


def _left(run_id: str, journals: Path, before: set[str]) -> list[str]:
    found = [f"journal {path}" for path in journals.glob("*/undo.jsonl")]
    found += [f"process {pid}" for pid in _processes(run_id)]
    layout = cgroup.layout()
    for mount in layout.mounts.values():
        found += [f"cgroup {path}" for path in (mount / "chaosflow").glob(f"{run_id}*")]
    return found + sorted(_devices_and_tables() - before)


def _processes(run_id: str) -> Iterator[int]:
    wanted = f"{RUN_VARIABLE}={run_id}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if (
                    wanted in (entry / "environ").read_bytes().split(b"\0")
                    and state(int(entry.name)) not in "ZX"
                ):
                    yield int(entry.name)


def _devices_and_tables() -> set[str]:
    """Of this machine's own network namespace: intermediate devices and nft tables named as ours are."""
    found = {f"device {path.name}" for path in Path("/sys/class/net").glob("cf*")}
    if nft := shutil.which("nft"):
        done = subprocess.run(
            [nft, "list", "tables"], capture_output=True, text=True, timeout=30, check=False
        )
        found |= {line for line in done.stdout.splitlines() if "chaosflow" in line}
    return found
