"""A rate that changes with time: how many arrivals are wanted by then, and the other way round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from pydantic import Field

from chaosflow.core.fields import Model, Seconds

MAX_RATE_PER_S = 100_000


class Stage(Model):
    """A change of the rate. Stages follow each other from the start of the load; the last rate stays."""

    duration: Seconds
    rate_per_s: float = Field(ge=0, le=MAX_RATE_PER_S)
    ramp: bool = False
    """True: move there evenly over ``duration``; false: jump there, and stay for ``duration``."""


class _Piece(NamedTuple):
    """From ``begin_s``, where ``wanted`` arrivals have been wanted, the rate is rate + slope x seconds."""

    begin_s: float
    wanted: float
    rate: float
    slope: float


class RateProfile:
    """``when(u)`` is the moment by which u arrivals are wanted; arrivals of a unit-rate process, mapped
    through it, have this rate (time change of a point process)."""

    def __init__(self, rate_per_s: float, stages: Sequence[Stage]) -> None:
        self._first_rate = rate_per_s
        self._pieces: list[_Piece] = []
        begin_s, count, rate = 0.0, 0.0, rate_per_s
        for stage in stages:
            slope = (stage.rate_per_s - rate) / stage.duration if stage.ramp and stage.duration else 0.0
            rate = rate if slope else stage.rate_per_s
            self._pieces.append(_Piece(begin_s, count, rate, slope))
            begin_s += stage.duration
            count += (rate + stage.rate_per_s) / 2 * stage.duration
            rate = stage.rate_per_s
        self._pieces.append(_Piece(begin_s, count, rate, 0.0))
        self._wanted = [piece.wanted for piece in self._pieces]
        self._begins = [piece.begin_s for piece in self._pieces]

    def wanted(self, at_s: float) -> float:
        """Arrivals wanted from the start of the load to then; below 0 before it, at the first rate."""
        if at_s < 0:
            return at_s * self._first_rate
        piece = self._pieces[bisect_right(self._begins, at_s) - 1]
        for_s = at_s - piece.begin_s
        return piece.wanted + (piece.rate + piece.slope * for_s / 2) * for_s

    def when(self, count: float) -> float | None:
        """Seconds from the start of the load, before it where ``count`` is negative; None = never."""
        if count < 0:
            return count / self._first_rate
        piece = self._pieces[bisect_right(self._wanted, count) - 1]
        more = count - piece.wanted
        root = sqrt(max(0.0, piece.rate**2 + 2 * piece.slope * more))
        if piece.rate + root == 0:
            return None if more > 0 or piece is self._pieces[-1] else piece.begin_s
        return piece.begin_s + 2 * more / (piece.rate + root)
