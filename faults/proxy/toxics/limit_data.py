"""``limit_data``: the connection is closed when ``bytes`` bytes have come through."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.keeping import KeepingStage
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class LimitDataAttributes(Attributes):
    bytes: int = Field(0, ge=0)
    """Of one connection, in this direction, counted from its begin or from when the toxic was added."""


class LimitDataToxic(Toxic):
    type: ClassVar[str] = "limit_data"

    attributes: LimitDataAttributes

    def stage(self, lane: Lane) -> Stage:
        return LimitDataStage(lane, self)


class LimitDataStage(KeepingStage):
    """Passes exactly the limit, then ends both directions. With a limit of 0 the first byte ends it."""

    toxic: LimitDataToxic

    def __init__(self, lane: Lane, toxic: LimitDataToxic) -> None:
        super().__init__(lane, toxic)
        self._passed = 0

    def feed(self, data: bytes) -> None:
        limit = self.toxic.attributes.bytes
        head = data[: max(0, limit - self._passed)]
        self._passed += len(head)
        self.pass_now(head)
        if self._passed >= limit and not self.dead:
            self.toxic.stats.add("cuts")
            self.die()

    def end(self, *, reset: bool) -> None:
        super().end(reset=reset)
        self.pass_all()
