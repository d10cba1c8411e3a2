"""A watchdog that somebody stopped: it is woken, and a run never waits for it without end."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.host import state
from chaosflow.orchestrator import watchlink
from chaosflow.orchestrator.watchlink import WatchLink

pytestmark = pytest.mark.slow


def died() -> None:
    raise AssertionError("the watchdog died")


async def _stopped_from_the_start(folder: Path) -> None:
    link = WatchLink(folder / "journal", folder / "log")
    await link.spawn()
    assert link._child
    os.kill(link._child.pid, signal.SIGSTOP)
    try:
        await link.ready(died)
    finally:
        await link.dismiss()
    assert not link._child.alive


async def _stopped_later(folder: Path) -> None:
    link = WatchLink(folder / "journal", folder / "log")
    await link.spawn()
    await link.ready(died)
    assert link._child
    pid = link._child.pid
    os.kill(pid, signal.SIGSTOP)
    seen = False
    for _ in range(1000):
        now = state(pid)
        if seen and now != "T":
            break
        seen |= now == "T"  # it takes the signal when it gets a CPU
        await asyncio.sleep(0.01)
    assert state(pid) not in ("T", "")
    await link.dismiss()
    assert not link._child.alive


def test_one_that_never_says_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchlink, "READY_WITHIN_S", 0.3)
    with pytest.raises(ChaosflowError, match=r"watchdog: said nothing within 0\.3 s"):
        asyncio.run(_stopped_from_the_start(tmp_path))


def test_one_that_is_stopped_in_the_run_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchlink, "WAKE_EVERY_S", 0.1)
    asyncio.run(_stopped_later(tmp_path))
