"""``slow_close``: the end of a connection comes through ``delay`` ms late."""

from __future__ import annotations

import time
from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.keeping import KeepingStage
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class SlowCloseAttributes(Attributes):
    delay: float = Field(0, ge=0, le=86_400_000)
    """ms"""


class SlowCloseToxic(Toxic):
    type: ClassVar[str] = "slow_close"

    attributes: SlowCloseAttributes

    def stage(self, lane: Lane) -> Stage:
        return SlowCloseStage(lane, self)


class SlowCloseStage(KeepingStage):
    """Bytes pass at once; an orderly end waits. A reset does not: it is no close."""

    toxic: SlowCloseToxic

    def feed(self, data: bytes) -> None:
        self.pass_now(data)

    def end(self, *, reset: bool) -> None:
        super().end(reset=reset)
        if reset:
            self.pass_all()
            return
        self.toxic.stats.add("closes")
        self.timer = self.lane.wire.timers.at(
            time.monotonic_ns() + round(self.toxic.attributes.delay * 1e6), self.pass_all
        )
