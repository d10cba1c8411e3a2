"""A rate that changes with time: how many arrivals are wanted by then, and the other way round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from chaosflow.core.loadplan import Stage


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
