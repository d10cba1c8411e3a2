"""The orchestrator's end of the watchdog: a pipe whose closing tells it that we are gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from chaosflow.core.errors import ChaosflowError
from chaosflow.orchestrator.children import Child, open_log

READY_WITHIN_S = 30.0
LETS_GO_WITHIN_S = 10.0
WAKE_EVERY_S = 1.0


class WatchLink:
    """One watchdog for one journal folder, which need not exist yet."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder, self._log = folder, log
        self._child: Child | None = None
        self._pipe = -1
        self._watcher: asyncio.Task[None] | None = None

    async def spawn(self) -> None:
        """Start it; returns at once. From here on a kill -9 of ours does not go unnoticed."""
        read_end, self._pipe = os.pipe()
        with open_log(self._log) as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "chaosflow.watchdog", str(self._folder),
                    stdin=read_end, stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(read_end)
        self._child = Child("watchdog", process, self._log)

    async def ready(self, on_dead: Callable[[], None]) -> None:
        """Wait until it has loaded all that an undo needs; ``on_dead`` is called if it ever dies before us."""
        assert self._child
        assert self._child.process.stdout
        try:
            line = await asyncio.wait_for(self._child.process.stdout.readline(), READY_WITHIN_S)
        except TimeoutError:
            self._child.process.kill()  # stopped, perhaps: it would keep us waiting at the end too
            cause = f"said nothing within {READY_WITHIN_S:g} s"
            raise ChaosflowError("watchdog", cause, "start again") from None
        if not line:
            raise ChaosflowError("watchdog", "died at its start", self._child.last_words())
        self._watcher = asyncio.create_task(self._watch(self._child, on_dead))

    async def _watch(self, child: Child, on_dead: Callable[[], None]) -> None:
        ended = asyncio.ensure_future(child.process.wait())
        while not (await asyncio.wait([ended], timeout=WAKE_EVERY_S))[0]:
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(signal.SIGCONT)  # stopped, it would guard nothing
        if self._pipe >= 0:
            on_dead()

    async def dismiss(self) -> None:
        """Tell it that we are done, and wait until it has gone."""
        if self._child is None:
            return
        pipe, self._pipe = self._pipe, -1
        os.close(pipe)
        try:
            await asyncio.wait_for(self._child.process.wait(), LETS_GO_WITHIN_S)
        except TimeoutError:
            self._child.process.kill()
            await self._child.process.wait()
