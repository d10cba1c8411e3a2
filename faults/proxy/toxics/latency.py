"""``latency``: every byte arrives later by ``latency`` ± ``jitter`` ms, in order."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.stats import Moments
from chaosflow.faults.proxy.timers import Timer
from chaosflow.faults.proxy.toxic import Attributes, Toxic

_MS = 1_000_000
_FIRE_EARLY_NS = 20_000
_EPOCH_SDS = 4
"""A delay is drawn anew at most every so many standard deviations of time. Order makes a chunk wait for
the one before it; were every chunk of a dense stream drawn alone, all would wait for the slowest: 20 ± 10 ms
would come out as 28 ± 1. So jitter is correlated in time, as a queue's is, and keeps its distribution."""


class LatencyAttributes(Attributes):
    latency: float = Field(0, ge=0, le=600_000)
    """ms"""
    jitter: float = Field(0, ge=0, le=600_000)
    """ms: half the width of ``uniform``, the standard deviation of ``normal`` (cut off at 0)."""
    distribution: Literal["uniform", "normal"] = "uniform"

    @model_validator(mode="after")
    def _jitter_fits(self) -> Self:
        if self.jitter > self.latency:
            raise ValueError(
                f"jitter {self.jitter:g} ms is more than latency {self.latency:g} ms: bytes cannot come early"
            )
        return self

    @property
    def sd_ms(self) -> float:
        return self.jitter / math.sqrt(3) if self.distribution == "uniform" else self.jitter


class LatencyToxic(Toxic):
    type: ClassVar[str] = "latency"

    attributes: LatencyAttributes
    _delays: Moments = PrivateAttr(default_factory=Moments)

    @property
    def delays(self) -> Moments:
        return self._delays

    def stage(self, lane: Lane) -> Stage:
        return LatencyStage(lane, self)

    def figures(self) -> dict[str, Any]:
        measured = {
            "delayed": self._delays.n,
            "delay_mean_ms": self._delays.mean,
            "delay_sd_ms": self._delays.sd,
        }
        return {**super().figures(), **measured, "requested_sd_ms": self.attributes.sd_ms}


class LatencyStage(Stage):
    """A queue of chunks with due times that never decrease. Removal shortens no delay already given."""

    limit_bytes = 1 << 22

    def __init__(self, lane: Lane, toxic: LatencyToxic) -> None:
        super().__init__(lane)
        self._toxic = toxic
        self._queue: deque[tuple[int, int, bytes | None, bool]] = deque()  # due, arrived, data, reset
        self._timer: Timer | None = None
        self._delay_ns, self._drawn_ns = 0, -(1 << 62)
        self._last_due_ns = 0

    def feed(self, data: bytes) -> None:
        self._toxic.stats.held_bytes += len(data)
        self._push(data, False)
        self.hold(len(data))

    def end(self, *, reset: bool) -> None:
        self._push(None, reset)

    def release(self) -> None:
        if not self._queue:
            self.leave()

    def cancel(self) -> None:
        self._toxic.stats.held_bytes -= self.held
        self.held = 0
        self._queue.clear()
        if self._timer:
            self._timer.cancel()

    def updated(self) -> None:
        self._drawn_ns = -(1 << 62)

    def _push(self, data: bytes | None, reset: bool) -> None:
        now = time.monotonic_ns()
        due = max(self._last_due_ns, now + (0 if self.released else self._draw_ns(now)))
        self._last_due_ns = due
        self._queue.append((due, now, data, reset))
        if self._timer is None:
            self._timer = self.lane.wire.timers.at(due, self._fire)

    def _draw_ns(self, now_ns: int) -> int:
        a, rng = self._toxic.attributes, self.lane.wire.rng
        if now_ns - self._drawn_ns >= _EPOCH_SDS * a.sd_ms * _MS:
            spread = (
                rng.uniform(-a.jitter, a.jitter) if a.distribution == "uniform" else rng.gauss(0, a.jitter)
            )
            self._delay_ns = round(max(0.0, a.latency + spread) * _MS)
            self._drawn_ns = now_ns
        return self._delay_ns

    def _fire(self) -> None:
        self._timer = None
        stats, delays = self._toxic.stats, self._toxic.delays
        horizon_ns = time.monotonic_ns() + _FIRE_EARLY_NS
        while self._queue and self._queue[0][0] <= horizon_ns:
            _, arrived, data, reset = self._queue.popleft()
            if data is None:
                self.next.end(reset=reset)
                continue
            stats.held_bytes -= len(data)
            stats.chunks += 1
            stats.bytes += len(data)
            self.held -= len(data)
            self.next.feed(data)
            delays.add((time.monotonic_ns() - arrived) / _MS)
        if self._queue:
            self._timer = self.lane.wire.timers.at(self._queue[0][0], self._fire)
        elif self.released:
            self.leave()
        self.lane.pressure()
