"""Helper processes of a run: started through the launcher, logged, and ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.host import RUN_VARIABLE
from chaosflow.linux import launcher

MEASURING_NICE = -10
"""For what stands in the measured path: a client that waits for a busy machine measures the machine."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where helpers of one run live."""

    run_id: str
    log_dir: Path
    netns_fd: int | None = None
    """Own network namespace, or None: the host's."""


@dataclass(slots=True)
class Child:
    """A running helper."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    ready: dict[str, Any] = field(default_factory=dict)
    """The JSON line with which it announced that it is up."""
    _drain: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def stop(self, grace_s: float = 3.0) -> None:
        """SIGTERM, then SIGKILL after ``grace_s``; returns when it has been reaped."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), grace_s)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
        await self.process.wait()
        if self._drain:
            await self._drain

    def last_words(self, lines: int = 5) -> str:
        """The end of its log, for an error message."""
        try:
            text = self.log.read_text(errors="replace").strip()
        except OSError:
            return ""
        return " | ".join(text.splitlines()[-lines:])


async def start_child(
    place: Place,
    name: str,
    command: Sequence[str],
    *,
    cgroups: Sequence[Path] = (),
    nice: int = 0,
    inherit: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    ready_timeout_s: float | None = None,
) -> Child:
    """Start ``python -m …`` or any command as a helper of the run.

    ``nice`` below 0 takes effect only with CAP_SYS_NICE; ``inherit`` are further descriptors. With ``ready_timeout_s`` its first line on stdout must be a JSON object, kept as ``ready``.
    Raises ChaosflowError with its last words when it dies or stays silent.
    """
    options = ["--parent", str(os.getpid())]
    descriptors = list(inherit)
    if place.netns_fd is not None:
        options += ["--netns-fd", str(place.netns_fd)]
        descriptors.append(place.netns_fd)
    if nice:
        options += ["--nice", str(nice)]
    for folder in cgroups:
        options += ["--cgroup", str(folder)]
    log = place.log_dir / f"{name}.log"
    environment = {**os.environ, **(env or {}), RUN_VARIABLE: place.run_id}
    with open_log(log) as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", launcher.__file__, *options, "--", *command,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors,
            pass_fds=descriptors, env=environment, limit=1 << 20,
        )  # fmt: skip
    child = Child(name, process, log)
    if ready_timeout_s is not None:
        try:
            await _await_ready(child, ready_timeout_s)
        except BaseException:
            await child.stop(0.2)
            raise
    child._drain = asyncio.create_task(_drain(child))
    return child


def open_log(path: Path) -> Any:
    """The log file, or /dev/null where the disk is full: a log is never worth a run."""
    try:
        return path.open("ab")
    except OSError:
        return open(os.devnull, "ab")


async def _await_ready(child: Child, timeout_s: float) -> None:
    assert child.process.stdout
    try:
        line = await asyncio.wait_for(child.process.stdout.readline(), timeout_s)
    except TimeoutError:
        raise ChaosflowError(child.name, f"said nothing within {timeout_s:g} s", child.last_words()) from None
    if not line:
        code = await child.process.wait()
        raise ChaosflowError(child.name, f"ended at once with exit code {code}", child.last_words())
    try:
        child.ready = json.loads(line)
    except ValueError:
        raise ChaosflowError(child.name, f"cannot read its first line {line[:200]!r}") from None


async def _drain(child: Child) -> None:
    """Keep its stdout flowing into the log, so that it never blocks on a full pipe."""
    assert child.process.stdout
    while chunk := await child.process.stdout.read(65536):
        with open_log(child.log) as log, contextlib.suppress(OSError):
            log.write(chunk)
