"""Timers that fire within tens of microseconds: asyncio's own wait in whole milliseconds (epoll_wait(2))."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import os
import time
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK, _TFD_CLOEXEC, _TFD_TIMER_ABSTIME = 0o4000, 0o2000000, 1
_SLACK_NS = 20_000
"""What is due within this is fired along: another system call would take as long."""


class _Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("interval", _Timespec), ("value", _Timespec)]


_libc = ctypes.CDLL(None, use_errno=True)


class Timer:
    """One pending callback; ``cancel`` may be called at any time, also after it fired."""

    __slots__ = ("callback", "due_ns")

    def __init__(self, due_ns: int, callback: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """A heap of timers on one timerfd(2), which the running event loop watches."""

    def __init__(self) -> None:
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._armed_ns = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._fire)

    def at(self, due_ns: int, callback: Callable[[], None]) -> Timer:
        """Call back at CLOCK_MONOTONIC ``due_ns``, or as soon as possible when that is past."""
        timer = Timer(due_ns, callback)
        self._count += 1
        heapq.heappush(self._heap, (due_ns, self._count, timer))
        if self._heap[0][2] is timer:
            self._arm(due_ns)
        return timer

    def close(self) -> None:
        """Forget all timers; none fires any more."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._heap.clear()

    def _arm(self, due_ns: int) -> None:
        s, ns = divmod(max(due_ns, 1), 1_000_000_000)
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(s, ns))
        _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None)

    def _fire(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        heap = self._heap
        horizon_ns = time.monotonic_ns() + _SLACK_NS
        while heap and heap[0][0] <= horizon_ns:
            callback = heapq.heappop(heap)[2].callback
            if callback is not None:
                callback()
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        if heap:
            self._arm(heap[0][0])
