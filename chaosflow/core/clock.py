"""One monotonic clock per run; wall time is for people only."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """Monotonic time in ns (CLOCK_MONOTONIC: comparable between processes of one machine)."""

    def now_ns(self) -> int: ...

    async def sleep_until(self, when_ns: int) -> None: ...


class SystemClock:
    """CLOCK_MONOTONIC. A step of the wall clock (NTP, an operator) does not move it."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep_until(self, when_ns: int) -> None:
        # asyncio's loop clock is CLOCK_MONOTONIC too; loop so that an early wake-up is not early here
        while (left := when_ns - time.monotonic_ns()) > 0:
            await asyncio.sleep(left / NS_PER_S)


def utc_now() -> str:
    """ISO 8601 in UTC with milliseconds."""
    return utc_after(0.0)


def utc_after(seconds: float) -> str:
    """The wall time so many seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def realtime_offset_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC now, the tightest of three samples."""
    best, width = 0, 1 << 62
    for _ in range(3):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        if after - before < width:
            best, width = real - (before + after) // 2, after - before
    return best
