"""``idle_cut``: a connection on which no byte has moved for ``idle`` ms, either way, is cut."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.keeping import KeepingStage
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class IdleCutAttributes(Attributes):
    idle: float = Field(gt=0, le=86_400_000)
    """ms"""
    reset: bool = False
    """By RST instead of FIN."""


class IdleCutToxic(Toxic):
    type: ClassVar[str] = "idle_cut"

    attributes: IdleCutAttributes

    def stage(self, lane: Lane) -> Stage:
        return IdleCutStage(lane, self)


class IdleCutStage(KeepingStage):
    """Passes everything on, as a balancer with an idle timeout does, and looks at the clock."""

    toxic: IdleCutToxic

    def __init__(self, lane: Lane, toxic: IdleCutToxic) -> None:
        super().__init__(lane, toxic)
        self._begun_ns = 0
        self._arm(max(lane.wire.moved_ns, toxic.stats.added_ns))

    def feed(self, data: bytes) -> None:
        self.pass_now(data)

    def end(self, *, reset: bool) -> None:
        super().end(reset=reset)
        self.pass_all()

    def updated(self) -> None:
        self.stop_timer()
        self._arm(self.lane.wire.moved_ns)

    def _arm(self, since_ns: int) -> None:
        self._begun_ns = since_ns
        if not self.dead:
            due_ns = since_ns + round(self.toxic.attributes.idle * 1e6)
            self.timer = self.lane.wire.timers.at(due_ns, self._look)

    def _look(self) -> None:
        self.timer = None
        moved_ns = self.lane.wire.moved_ns
        if moved_ns > self._begun_ns:
            self._arm(moved_ns)
            return
        self.toxic.stats.add("cuts")
        if self.toxic.attributes.reset:
            self.lane.wire.reset()
        else:
            self.die()
