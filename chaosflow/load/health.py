"""Whether the load generator itself keeps up."""

from __future__ import annotations

import math
import os
import time
from typing import NoReturn

import gevent

from chaosflow.load.stamps import StampClock

_BEAT_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Health:
    """Gauges of one worker, for CellBatch.health."""

    def __init__(self, clock: StampClock) -> None:
        self._clock = clock
        self._lags_s: list[float] = []
        self.cap_hits = 0
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)  # kept: there may be no descriptor left later

    def watch_loop(self) -> NoReturn:
        """Measure how late a sleeping greenlet is woken, and compare the clocks, 20 times a second."""
        while True:
            before_ns = time.monotonic_ns()
            gevent.sleep(_BEAT_S)
            self._lags_s.append(max(0.0, (self._clock.sample() - before_ns) / 1e9 - _BEAT_S))

    def gauges(self) -> dict[str, float]:
        """The gauges now; the loop's lag covers the time since the last call."""
        lags, self._lags_s = sorted(self._lags_s), []
        return {
            "rss_bytes": float(int(os.pread(self._statm, 256, 0).split()[1]) * _PAGE_BYTES),
            "loop_lag_p99_s": lags[math.ceil(0.99 * len(lags)) - 1] if lags else 0.0,
            "user_stamps": float(self._clock.user_stamps),
            "clock_jumps": float(self._clock.jumps),
            "cap_hits": float(self.cap_hits),
        }

    def close(self) -> None:
        os.close(self._statm)
