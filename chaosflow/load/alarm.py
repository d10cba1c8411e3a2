"""Waking greenlets at absolute monotonic times, to some 50 µs.

libev rounds its timers up to whole ms and counts from a cached now; a timerfd (timerfd_create(2)) on
CLOCK_MONOTONIC does neither. Python has os.timerfd_create only from 3.13 on.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import os
import time

from gevent import get_hub
from gevent.hub import Waiter

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class AlarmClock:
    """One timerfd for any number of sleepers of one event loop."""

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._hub = get_hub()
        self._sleepers: list[tuple[int, int, Waiter]] = []
        self._numbers = itertools.count()
        self._watcher = self._hub.loop.io(self._fd, 1)
        self._watcher.start(self._ring)

    def sleep_until(self, when_ns: int) -> None:
        """Sleep till then; returns at once, without giving way, where that is past."""
        if when_ns > time.monotonic_ns():
            self._sleep(when_ns)

    def breathe(self) -> None:
        """Let whatever is due or has come be served first.

        ``gevent.sleep(0)`` does not: the loop runs up to fifty callbacks before it looks at a socket again.
        """
        self._sleep(time.monotonic_ns())

    def _sleep(self, when_ns: int) -> None:
        waiter = Waiter(self._hub)
        heapq.heappush(self._sleepers, (when_ns, next(self._numbers), waiter))
        if self._sleepers[0][2] is waiter:
            self._arm(when_ns)
        waiter.get()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        now_ns = time.monotonic_ns()
        while self._sleepers and self._sleepers[0][0] <= now_ns:
            heapq.heappop(self._sleepers)[2].switch(None)
        if self._sleepers:
            self._arm(self._sleepers[0][0])

    def _arm(self, when_ns: int) -> None:
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(when_ns, 1_000_000_000)))
        _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None)

    def close(self) -> None:
        self._watcher.stop()
        self._watcher.close()
        os.close(self._fd)
