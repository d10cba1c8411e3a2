"""Two samples compared: the rank test with ties, two shares, and what many tests at once do to a p-value.

scipy is no dependency; tests compare every function here with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""How many samples lie in each bucket; buckets ascend, shape (buckets,)."""


@dataclass(frozen=True, slots=True)
class RankTest:
    """Mann-Whitney of two samples given as counts in common buckets."""

    z: float
    """Above 0: the second sample is the larger."""
    larger_share: float
    """P(second > first) + half of P(equal); 0.5 where there is no difference."""


def rank_test(first: Counts, second: Counts) -> RankTest:
    """The Mann-Whitney statistic, corrected for ties; z is 0 where either is empty or all values are equal."""
    a, b = int(first.sum()), int(second.sum())
    if not a or not b:
        return RankTest(0.0, 0.5)
    below = np.cumsum(first) - first  # of the first sample, below each bucket
    u = float(np.sum(second * (below + first / 2)))
    ties = (first + second).astype(np.float64)
    n = a + b
    variance = a * b / 12 * ((n + 1) - float(np.sum(ties**3 - ties)) / (n * (n - 1))) if n > 1 else 0.0
    z = (u - a * b / 2) / math.sqrt(variance) if variance > 0 else 0.0
    return RankTest(z, u / (a * b))


def placements(sample: Counts, other: Counts) -> NDArray[np.float64]:
    """For each bucket: the share of ``other`` that lies below a value in it (half of the ties)."""
    total = max(int(other.sum()), 1)
    share: NDArray[np.float64] = (np.cumsum(other) - other / 2) / total
    return share


def design_effect(values: NDArray[np.float64], blocks: NDArray[np.int64]) -> float:
    """How much more the mean of ``values`` varies than if samples were independent; at least 1.

    ``blocks`` has shape (blocks, buckets), in order of time: requests of one second share its fate, and
    neighbouring seconds each other's (Bartlett's weight of one lag; a verdict's design effect looks further).
    """
    totals = blocks.sum(axis=0)
    n = int(totals.sum())
    rows = blocks[blocks.sum(axis=1) > 0]
    size = len(rows)
    if size < 2 or n < 2:
        return 1.0
    mean = float(totals @ values) / n
    own = float(totals @ (values - mean) ** 2)
    if own <= 0:
        return 1.0
    residuals = rows @ (values - mean)
    neighbours = max(0.0, float(np.sum(residuals[:-1] * residuals[1:])))
    return max(1.0, (float(np.sum(residuals**2)) + neighbours) * size / (size - 1) / own)


def student_p(t: float, df: float) -> float:
    """P(|T| >= |t|), two-sided, of Student's t; normal where ``df`` is infinite."""
    if math.isinf(df):
        return math.erfc(abs(t) / math.sqrt(2))
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction (Numerical Recipes 6.4)."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / _away_from_0(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_0(1 + step * d)
            c = _away_from_0(1 + step / c)
            total *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * total / a


def _away_from_0(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def two_shares_p(k1: float, n1: float, k2: float, n2: float) -> float:
    """Two-sided p of the difference of two shares: Fisher's exact test on the nearest whole numbers."""
    a, b, n_a, n_b = round(k1), round(k2), round(n1), round(n2)
    if n_a <= 0 or n_b <= 0:
        return 1.0
    whole, total = a + b, n_a + n_b
    low, high = max(0, whole - n_b), min(whole, n_a)
    base = _log_choose(total, whole)
    logs = np.array([_log_choose(n_a, k) + _log_choose(n_b, whole - k) - base for k in range(low, high + 1)])
    p = np.exp(logs)
    return min(1.0, float(p[p <= p[a - low] * (1 + 1e-7)].sum()))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def newcombe(k1: float, n1: float, k2: float, n2: float, z: float = 1.959964) -> tuple[float, float]:
    """The interval of share 2 minus share 1 (R. Newcombe 1998, method 10); (-1, 1) where there is nothing."""
    if n1 <= 0 or n2 <= 0:
        return -1.0, 1.0
    p1, p2 = k1 / n1, k2 / n2
    low1, high1 = _wilson(k1, n1, z)
    low2, high2 = _wilson(k2, n2, z)
    difference = p2 - p1
    return (
        difference - math.hypot(p2 - low2, high1 - p1),
        difference + math.hypot(high2 - p2, p1 - low1),
    )


def _wilson(k: float, n: float, z: float) -> tuple[float, float]:
    p, zz = k / n, z * z
    middle, half = p + zz / (2 * n), z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n))
    return max(0.0, (middle - half) / (1 + zz / n)), min(1.0, (middle + half) / (1 + zz / n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: below alpha = found, whatever else was tested."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = worst
    return adjusted


def exact_rank_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the rank-sum test by counting every assignment; exact with ties too. For few values.

    The work grows with len(first) * len(second) * (their sum)^2: meant for a few dozen values.
    """
    values = [*first, *second]
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    doubled = (left + right + 1).astype(int)  # twice the mid-rank: whole numbers
    few, total = len(second), len(values)
    if not few or few == total:
        return 1.0
    ways = np.zeros((few + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    sums = np.arange(ways.shape[1])
    middle = few * (total + 1)
    seen = abs(int(doubled[len(first) :].sum()) - middle)
    return float(ways[few, np.abs(sums - middle) >= seen].sum() / ways[few].sum())
