"""Exact binomial tails, and what follows from them: intervals, ranks, "how many more".

A tail is one probability, by Loader's saddle-point form (C. Loader, "Fast and Accurate Computation of
Binomial Probabilities", 2000), times the sum of the ratios that follow it; both are stable up to
n = 1e8. Nothing here rounds, and nothing needs scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

PASS_LEVEL = 0.05
"""A claim passes when what was seen had at most this probability if the claim were just false."""

_CHUNK = 2048
_NEGLIGIBLE = 1e-17


def _stirling_error(n: float) -> float:
    """log(n!) - log(sqrt(2 pi n) (n/e)^n)."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    nn = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680) / nn) / nn) / nn) / n


def _deviance(x: float, mean: float) -> float:
    """x log(x/mean) + mean - x, without cancellation where x is near mean."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, term = (x - mean) * v, 2 * x * v
    for j in range(1, 1000):
        term *= v * v
        further = total + term / (2 * j + 1)
        if further == total:
            break
        total = further
    return total


def pmf(k: int, n: int, p: float) -> float:
    """P(X = k) for X ~ Bin(n, p)."""
    if not 0 <= k <= n:
        return 0.0
    if p <= 0:
        return float(k == 0)
    if p >= 1:
        return float(k == n)
    if k == 0:
        return math.exp(n * math.log1p(-p))
    if k == n:
        return math.exp(n * math.log(p))
    log_core = (
        _stirling_error(n)
        - _stirling_error(k)
        - _stirling_error(n - k)
        - _deviance(k, n * p)
        - _deviance(n - k, n * (1 - p))
    )
    return math.exp(log_core) * math.sqrt(n / (2 * math.pi * k * (n - k)))


def _ratio_sum(start: int, count: int, ratio: Callable[[np.ndarray], np.ndarray]) -> float:
    """1 + r(1) + r(1) r(2) + … over ``count`` falling ratios, until nothing is added any more."""
    total, last = 1.0, 1.0
    for begin in range(start, start + count, _CHUNK):
        steps = np.arange(begin, min(begin + _CHUNK, start + count), dtype=np.float64)
        products = last * np.cumprod(ratio(steps))
        total += float(products.sum())
        last = float(products[-1])
        if last <= _NEGLIGIBLE * total:
            break
    return total


def upper_tail(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Bin(n, p)."""
    if k <= 0:
        return 1.0
    if k > n or p <= 0:
        return 0.0
    if p >= 1:
        return 1.0
    if k <= n * p:  # the far side is the shorter sum, and loses nothing: the result is no small number
        return max(0.0, 1.0 - lower_tail(k - 1, n, p))
    odds = p / (1 - p)
    return min(1.0, pmf(k, n, p) * _ratio_sum(k, n - k, lambda x: (n - x) / (x + 1) * odds))


def lower_tail(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Bin(n, p)."""
    if k < 0:
        return 0.0
    if k >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    if k > n * p:
        return max(0.0, 1.0 - upper_tail(k + 1, n, p))
    odds = (1 - p) / p
    return min(1.0, pmf(k, n, p) * _ratio_sum(0, k, lambda i: (k - i) / (n - k + i + 1) * odds))


def _bisect(holds: Callable[[float], bool]) -> float:
    """The p in 0..1 where ``holds`` turns from true to false."""
    low, high = 0.0, 1.0
    for _ in range(44):  # to 1e-13
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share of which k of n were seen; (0, 1) where n is 0."""
    if n == 0:
        return 0.0, 1.0
    side = (1 - confidence) / 2
    low = 0.0 if k == 0 else _bisect(lambda p: upper_tail(k, n, p) < side)
    high = 1.0 if k == n else _bisect(lambda p: lower_tail(k, n, p) > side)
    return low, high


def upper_rank(n: int, q: float, confidence: float = 0.95) -> int | None:
    """The least rank r (1-based) with P(x_(r) >= the true q-quantile) >= confidence; None: n too small."""
    low, high = 0, n  # the answer lies in (low, high]
    if n == 0 or lower_tail(n - 1, n, q) < confidence:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(middle - 1, n, q) >= confidence:
            high = middle
        else:
            low = middle
    return high


def lower_rank(n: int, q: float, confidence: float = 0.95) -> int | None:
    """The greatest rank r (1-based) with P(x_(r) <= the true q-quantile) >= confidence; None: n too small."""
    low, high = 1, n + 1  # the answer lies in [low, high)
    if n == 0 or upper_tail(1, n, q) < confidence:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if upper_tail(middle, n, q) >= confidence:
            low = middle
        else:
            high = middle
    return low


def smallest_n(k: int, p0: float) -> int:
    """The least n with which k exceedances pass: P(X <= k | n, p0) <= 0.05. 59 for p95, 299 for p99 at k = 0.

    Raises ValueError unless 0 < p0 < 1.
    """
    if not 0 < p0 < 1:
        raise ValueError(f"p0 {p0!r}: no number of samples follows from it; it must be between 0 and 1")
    low = high = k  # P(X <= k | n = k) = 1: never passes
    while lower_tail(k, high, p0) > PASS_LEVEL:
        low, high = high, max(2 * high, 16)
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(k, middle, p0) <= PASS_LEVEL:
            high = middle
        else:
            low = middle
    return high


def needs_more(n: int, k: int, p0: float) -> int:
    """Further samples without an exceedance after which (n, k) passes; 0 when it passes already."""
    return max(0, smallest_n(k, p0) - n)
