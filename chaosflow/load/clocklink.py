"""The master's monotonic clock as seen from a worker, which may be on another machine.

Pings over Locust's own channel; the quickest of the last ones tells the offset, and half its round trip how far
it can be wrong (Cristian, "Probabilistic clock synchronization", 1989).
"""

from __future__ import annotations

import time
from collections import deque

_KEPT = 20
"""Clocks of two machines drift apart: older pings are forgotten."""


class ClockLink:
    """Offsets are master minus worker, in ns."""

    def __init__(self) -> None:
        self._pings: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self.heard_ns = time.monotonic_ns()
        """When the master last answered."""

    def pong(self, sent_ns: int, master_ns: int, now_ns: int | None = None) -> None:
        """An answer came: our ping left at ``sent_ns``, the master read ``master_ns`` when it had it."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        self.heard_ns = max(self.heard_ns, now_ns)
        self._pings.append((now_ns - sent_ns, master_ns - (sent_ns + now_ns) // 2))

    @property
    def known(self) -> int:
        """How many pings the measurement rests on."""
        return len(self._pings)

    @property
    def measured_ns(self) -> int:
        """The offset as measured; 0 before the first answer."""
        return min(self._pings)[1] if self._pings else 0

    @property
    def error_ns(self) -> int:
        """How far the measured offset can be wrong."""
        return min(self._pings)[0] // 2 if self._pings else 0

    @property
    def offset_ns(self) -> int:
        """The offset to reckon with: none where the clocks may well be the same (one machine)."""
        measured_ns = self.measured_ns
        return 0 if abs(measured_ns) <= self.error_ns else measured_ns

    def to_worker(self, master_ns: int) -> int:
        return master_ns - self.offset_ns

    def to_master(self, worker_ns: int) -> int:
        return worker_ns + self.offset_ns

    def gauges(self) -> dict[str, float]:
        """For CellBatch.health."""
        return {"clock_offset_s": self.measured_ns / 1e9, "clock_offset_error_s": self.error_ns / 1e9}
