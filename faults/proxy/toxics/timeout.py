"""``timeout``: nothing comes through, and after ``timeout`` ms the connection is closed."""

from __future__ import annotations

import time
from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.keeping import KeepingStage
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class TimeoutAttributes(Attributes):
    timeout: float = Field(0, ge=0, le=86_400_000)
    """ms from the connection's begin, or from when the toxic was added to one already open; 0: never."""


class TimeoutToxic(Toxic):
    type: ClassVar[str] = "timeout"

    attributes: TimeoutAttributes

    def stage(self, lane: Lane) -> Stage:
        return TimeoutStage(lane, self)


class TimeoutStage(KeepingStage):
    """Keeps everything. One timer, that no byte sets back; what was kept when it fires is dropped."""

    toxic: TimeoutToxic

    def __init__(self, lane: Lane, toxic: TimeoutToxic) -> None:
        super().__init__(lane, toxic)
        self._met_ns = time.monotonic_ns()
        self._arm()

    def feed(self, data: bytes) -> None:
        self.toxic.stats.add("stopped_bytes", len(data))
        super().feed(data)

    def updated(self) -> None:
        self.stop_timer()
        self._arm()

    def _arm(self) -> None:
        timeout_ms = self.toxic.attributes.timeout
        if timeout_ms and not self.dead:
            self.timer = self.lane.wire.timers.at(self._met_ns + round(timeout_ms * 1e6), self._fire)

    def _fire(self) -> None:
        self.toxic.stats.add("timeouts")
        self.die()
