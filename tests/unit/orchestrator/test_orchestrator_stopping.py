"""Asking a run to end: nothing is cut off in the middle, every wait notices at once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from chaosflow.core.clock import SystemClock
from chaosflow.orchestrator.stopping import Stop, Stopped, Why


def test_the_first_reason_counts() -> None:
    async def play() -> Stop:
        stop = Stop(SystemClock())
        stop.ask(Why.ABORTED, "rule")
        stop.ask(Why.INTERRUPTED, "later")
        return stop

    stop = asyncio.run(play())
    assert stop.end is not None
    assert stop.end.why is Why.ABORTED


def test_a_wait_for_a_time_ends_early_when_asked() -> None:
    async def play() -> tuple[bool, bool]:
        clock = SystemClock()
        stop = Stop(clock)
        in_time = await stop.sleep_until(clock.now_ns() + 1_000_000)
        asyncio.get_running_loop().call_later(0.01, stop.ask, Why.INTERRUPTED, "")
        cut_short = await asyncio.wait_for(stop.sleep_until(clock.now_ns() + 60_000_000_000), 5)
        return in_time, cut_short

    assert asyncio.run(play()) == (True, False)


def test_work_is_given_up_and_cleans_up_after_itself() -> None:
    async def play() -> list[str]:
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                seen.append("cleaned")

        stop = Stop(SystemClock())
        asyncio.get_running_loop().call_later(0.01, stop.ask, Why.TERMINATED, "")
        with pytest.raises(Stopped):
            await stop.unless(work())
        return seen

    assert asyncio.run(play()) == ["cleaned"]


def test_signals_ask_and_never_interrupt() -> None:
    async def play() -> tuple[int, str]:
        stop = Stop(SystemClock())
        stop.listen(asyncio.get_running_loop())
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
        assert stop.end
        return stop.signals, stop.end.text

    assert asyncio.run(play()) == (3, "interrupted by SIGINT")
