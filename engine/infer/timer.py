"""Sleeping to a monotonic instant within about 0.1 ms, without spinning.

asyncio rounds its timeouts up to whole milliseconds (selectors.EpollSelector); a timerfd does not
(timerfd_create(2)). Python has it from 3.13 on; before that it is called through ctypes.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)
NS_PER_S = 1_000_000_000


class PreciseTimer:
    """One timer of one running event loop; one sleeper at a time. Close it when done."""

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._loop.add_reader(self._fd, self._fired)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def sleep_until(self, when_ns: int) -> None:
        """Return at or just after ``when_ns`` (CLOCK_MONOTONIC); at once if it has passed."""
        spec = struct.pack("@qqqq", 0, 0, when_ns // NS_PER_S, when_ns % NS_PER_S)
        self._waiter = self._loop.create_future()
        _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # set anew in between
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
