"""``reset_peer``: ``timeout`` ms after it meets a connection, both ends get a TCP RST."""

from __future__ import annotations

import time
from typing import ClassVar

from pydantic import Field

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.toxic import Attributes, Toxic


class ResetPeerAttributes(Attributes):
    timeout: float = Field(0, ge=0, le=86_400_000)
    """ms from the connection's begin, or from when the toxic was added to one already open. Bytes flow till then."""


class ResetPeerToxic(Toxic):
    type: ClassVar[str] = "reset_peer"

    attributes: ResetPeerAttributes

    def stage(self, lane: Lane) -> Stage:
        return ResetPeerStage(lane, self)


class ResetPeerStage(Stage):
    """Passes everything on; only its timer acts. SO_LINGER 0 makes the close a RST, in mid-stream too."""

    def __init__(self, lane: Lane, toxic: ResetPeerToxic) -> None:
        super().__init__(lane)
        self._toxic = toxic
        self._met_ns = time.monotonic_ns()
        self._arm()

    def feed(self, data: bytes) -> None:
        self._toxic.stats.chunks += 1
        self._toxic.stats.bytes += len(data)
        self.next.feed(data)

    def end(self, *, reset: bool) -> None:
        self.next.end(reset=reset)

    def release(self) -> None:
        self._timer.cancel()
        self.leave()

    def updated(self) -> None:
        self._timer.cancel()
        self._arm()

    def cancel(self) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        due_ns = self._met_ns + round(self._toxic.attributes.timeout * 1e6)
        self._timer = self.lane.wire.timers.at(due_ns, self._reset)

    def _reset(self) -> None:
        self._toxic.stats.add("resets")
        self.lane.wire.reset()
