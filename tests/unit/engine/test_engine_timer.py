"""The timer's precision: much finer than asyncio's millisecond."""

from __future__ import annotations

import asyncio
import statistics
import time

from chaosflow.engine.infer.timer import PreciseTimer


def test_wakes_late_by_far_less_than_a_millisecond_and_never_early() -> None:
    async def go() -> list[int]:
        timer, late = PreciseTimer(), []
        try:
            for _ in range(40):
                when = time.monotonic_ns() + 1_300_000
                await timer.sleep_until(when)
                late.append(time.monotonic_ns() - when)
        finally:
            timer.close()
        return late

    late = asyncio.run(go())
    assert min(late) >= 0
    assert statistics.median(late) < 500_000


def test_an_instant_in_the_past_returns_at_once() -> None:
    async def go() -> float:
        timer = PreciseTimer()
        try:
            start = time.monotonic()
            await timer.sleep_until(time.monotonic_ns() - 10**9)
            return time.monotonic() - start
        finally:
            timer.close()

    assert asyncio.run(go()) < 0.1


def test_a_cancelled_sleep_can_be_followed_by_another() -> None:
    async def go() -> None:
        timer = PreciseTimer()
        try:
            sleeping = asyncio.create_task(timer.sleep_until(time.monotonic_ns() + 20_000_000))
            await asyncio.sleep(0)
            sleeping.cancel()
            await asyncio.gather(sleeping, return_exceptions=True)
            when = time.monotonic_ns() + 1_000_000
            await timer.sleep_until(when)
            assert time.monotonic_ns() >= when
        finally:
            timer.close()

    asyncio.run(go())
