"""``slicer``: bytes come in small pieces, with pauses between them."""

from __future__ import annotations

import time
from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.faults.proxy.keeping import KeepingStage
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic

_PIECES_AT_ONCE = 64
"""So that a large chunk cut small does not hold up the other connections."""


class SlicerAttributes(Attributes):
    average_size: int = Field(1, ge=1)
    """bytes"""
    size_variation: int = Field(0, ge=0)
    """bytes: sizes are uniform within average ± variation"""
    delay: int = Field(0, ge=0, le=3_600_000_000)
    """µs between two pieces"""

    @model_validator(mode="after")
    def _variation_fits(self) -> Self:
        if self.size_variation >= self.average_size and self.size_variation:
            raise ValueError(
                f"size_variation {self.size_variation} is not less than average_size {self.average_size}: "
                f"a piece has at least one byte"
            )
        return self


class SlicerToxic(Toxic):
    type: ClassVar[str] = "slicer"

    attributes: SlicerAttributes

    def stage(self, lane: Lane) -> Stage:
        return SlicerStage(lane, self)


class SlicerStage(KeepingStage):
    """Each piece is a write of its own on a socket without Nagle's delay: a TCP segment, while there is room."""

    toxic: SlicerToxic

    def feed(self, data: bytes) -> None:
        super().feed(data)
        if not self.timer:
            self._go_on(time.monotonic_ns())
            self.lane.pressure()

    def end(self, *, reset: bool) -> None:
        super().end(reset=reset)
        if not self.timer:
            self.pass_all()

    def _fire(self) -> None:
        due_ns = self.timer.due_ns if self.timer else time.monotonic_ns()
        self.timer = None
        self._go_on(due_ns)
        self.lane.pressure()

    def _go_on(self, now_ns: int) -> None:
        """Pass pieces until it is time to pause; afterwards the timer says when to go on."""
        attributes = self.toxic.attributes
        for _ in range(1 if attributes.delay else _PIECES_AT_ONCE):
            if not self.queue:
                return
            self.pass_next(self._size())
            self.toxic.stats.add("pieces")
        if self.queue or attributes.delay:
            self.timer = self.lane.wire.timers.at(now_ns + attributes.delay * 1000, self._fire)

    def _size(self) -> int:
        attributes = self.toxic.attributes
        spread = attributes.size_variation
        return attributes.average_size + (self.lane.wire.rng.randint(-spread, spread) if spread else 0)
