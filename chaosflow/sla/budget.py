"""Error budget, multi-window burn rates, and sliding windows: what would have paged, and when. Decides nothing.

The error budget of "P99 of x <= T" is the 1 % of samples that may exceed. A window that exceeds in 5 % of
its samples burns it at 5x. The pairs of windows are those of the Site Reliability Workbook (Beyer and
others, 2018, chapter 5: 14.4x over 1 h and 5 min, 6x over 6 h and 30 min, 1x over 3 d and 6 h of a period of
30 d), with the run as the period. Burn rates are compared unrounded. So that one error at low traffic does
not page, the long window's exceedances must also be improbable (below 0.1 %, by Chernoff's bound on the
binomial tail) for a service that just keeps its objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaosflow.core.budget import Alarm, Budget, BurnRate, Sliding
from chaosflow.core.columns import Ints
from chaosflow.core.slo import Kind
from chaosflow.sla.evidence import Evidence

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PAIRS = ((14.4, 1 / 720, 12), (6.0, 1 / 120, 30), (1.0, 1 / 10, 60))
"""(factor, long window as part of the period, its least length in s); the short one is a twelfth of it."""
SHORT_PART = 12
CHANCE = 0.001
MOST_ALARMS = 100
"""Kept of each kind: a day just at its limit would have thousands."""
BUDGET_KINDS = (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE, Kind.SHARE, Kind.EVENT_SHARE)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """One objective over the whole run: n and certain exceedances of every second from ``first`` on."""

    first: int
    n: Ints
    k: Ints


def samples_of(evidence: Evidence, number: int) -> Samples:
    """All segments that the objective is judged in, summed by second. Of two faults at once both count."""
    parts = [
        evidence.store.blocks(segment, number)
        for segment in evidence.segments_of(evidence.objectives[number])
    ]
    parts = [p for p in parts if len(p)]
    if not parts:
        return Samples(0, np.zeros(0, np.int64), np.zeros(0, np.int64))
    first = min(int(p.second[0]) for p in parts)
    length = max(int(p.second[-1]) for p in parts) + 1 - first
    n, k = np.zeros(length, np.int64), np.zeros(length, np.int64)
    for part in parts:
        n[part.second - first] += part.n
        k[part.second - first] += part.fail_low
    return Samples(first, n, k)


def budget_of(samples: Samples, p0: float) -> Budget:
    """The budget of an objective that allows the share ``p0``, and how it was spent."""
    p0 = round(p0, 12)
    n, bad, period_s = int(samples.n.sum()), int(samples.k.sum()), len(samples.n)
    spent = bad / (p0 * n) if n and p0 > 0 else None
    burn = [] if spent is None or p0 >= 1 else [_burn(samples, p0, *pair) for pair in _pairs(period_s)]
    return Budget(p0, n, bad, spent, float(period_s), tuple(burn))


def _pairs(period_s: int) -> list[tuple[float, int]]:
    """(factor, long window): those that the period holds at least twice."""
    found = [(factor, max(least_s, round(part * period_s))) for factor, part, least_s in PAIRS]
    return [(factor, long_s) for factor, long_s in found if 2 * long_s <= period_s]


def _burn(samples: Samples, p0: float, factor: float, long_s: int) -> BurnRate:
    short_s = max(1, round(long_s / SHORT_PART))
    n, k = _over(samples.n, long_s), _over(samples.k, long_s)
    rate = _rate(n, k, p0)
    short_rate = _rate(_over(samples.n, short_s), _over(samples.k, short_s), p0)
    holds = (rate >= factor) & (short_rate >= factor) & (_chance_at_most(n, k, p0) < CHANCE)
    full = rate[long_s - 1 :]
    place = int(full.argmax()) + long_s - 1
    return BurnRate(
        factor=factor,
        long_s=float(long_s),
        short_s=float(short_s),
        budget_part=factor * long_s / len(samples.n),
        peak=float(rate[place]),
        peak_at_s=float(samples.first + place + 1) if rate[place] > 0 else None,
        alarms=_stretches(holds, rate, n, samples.first),
    )


def sliding_of(samples: Samples, p0: float, window_s: float) -> Sliding:
    """Where the share of exceedances in the last ``window_s`` was above ``p0``."""
    length = max(1, round(window_s))
    n, k = _over(samples.n, length), _over(samples.k, length)
    share = _rate(n, k, 1.0)
    return Sliding(float(length), _stretches(k > round(p0, 12) * n, share, n, samples.first))


def _over(values: Ints, length: int) -> Ints:
    """Sums over the windows that end with each second, shorter ones at the beginning."""
    sums = np.concatenate(([0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    found: Ints = sums[ends] - sums[np.maximum(0, ends - length)]
    return found


def _rate(n: Ints, k: Ints, p0: float) -> Floats:
    found: Floats = np.divide(k, n * p0, out=np.zeros(len(n)), where=n > 0)
    return found


def _chance_at_most(n: Ints, k: Ints, p0: float) -> Floats:
    """Chernoff: P(X >= k) <= exp(-n D(k/n, p0)) for X ~ Bin(n, p0); 1 where k/n is at most p0."""
    share = np.divide(k, n, out=np.zeros(len(n)), where=n > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        good = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - p0)), 0.0)
        distance = np.where(share > p0, share * np.log(share / p0) + good, 0.0)
    found: Floats = np.exp(-n * distance)
    return found


def _stretches(holds: Bools, value: Floats, n: Ints, first: int) -> tuple[Alarm, ...]:
    """Runs of seconds in which a condition held; of very many those with the highest peaks."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], holds, [False])).astype(np.int8)))
    found = []
    for begin, end in edges.reshape(-1, 2).tolist():
        place = begin + int(value[begin:end].argmax())
        found.append(Alarm(float(first + begin + 1), float(first + end), float(value[place]), int(n[place])))
    if len(found) > MOST_ALARMS:
        found = sorted(found, key=lambda a: -a.peak)[:MOST_ALARMS]
    return tuple(sorted(found, key=lambda a: a.begin_s))
