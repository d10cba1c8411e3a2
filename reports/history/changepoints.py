"""Where a series changed its level: the split with the most surprising rank sum, judged by permutation.

Ranks, so that one wild night decides nothing; permutation, so that no distribution is assumed (only that
nights are exchangeable while nothing changes). The most surprising place dates a change to the night
it began, however many nights later it is found. Several changes are found by splitting (binary
segmentation); those too small to matter are merged again, least first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MIN_BEFORE, MIN_AFTER = 5, 3
"""Nights that a level needs on either side of a change."""
PERMUTATIONS = 20_000
_EXACT = 12
"""Up to so many nights a rank sum's distribution is counted out; beyond, it is normal."""
_LEAST_HALF = 16
_SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level: the first night of the new one."""

    index: int
    p: float
    before: float
    """Median of the level before, and of the one after."""
    after: float


def find_changes(
    values: Sequence[float], *, alpha: float, matters: Callable[[float, float], bool] = lambda a, b: True
) -> list[ChangePoint]:
    """Every change of level with p < ``alpha`` that ``matters(before, after)``; in order of time.

    The same values give the same answer: the permutations are seeded. Fewer than 8 values give none.
    """
    series = np.asarray(values, dtype=np.float64)
    found: dict[int, float] = {}
    _split(series, 0, len(series), alpha, found)
    cuts = sorted(found)
    while cuts:
        levels = _levels(series, cuts)
        steps = [(abs(b - a), i) for i, (a, b) in enumerate(pairwise(levels))]
        small = [(size, i) for size, i in steps if not matters(levels[i], levels[i + 1])]
        if not small:
            return [ChangePoint(cut, found[cut], levels[i], levels[i + 1]) for i, cut in enumerate(cuts)]
        del cuts[min(small)[1]]
    return []


def _levels(series: NDArray[np.float64], cuts: Sequence[int]) -> list[float]:
    edges = [0, *cuts, len(series)]
    return [float(np.median(series[a:b])) for a, b in pairwise(edges)]


def _split(series: NDArray[np.float64], begin: int, end: int, alpha: float, found: dict[int, float]) -> None:
    cut, p = _best(series, begin, end, alpha)
    if p >= alpha:
        return
    found[cut] = p
    _split(series, begin, cut, alpha, found)
    _split(series, cut, end, alpha, found)


def _best(series: NDArray[np.float64], begin: int, end: int, alpha: float) -> tuple[int, float]:
    """The split of these nights and its p; 1 where none is below ``alpha``.

    A change that was undone later cancels itself in the whole: so where that shows nothing, halves are
    looked at, overlapping, each with a part of alpha.
    """
    cut, p = _test(series[begin:end])
    if p < alpha:
        return begin + cut, p
    half = (end - begin) // 2
    if half < _LEAST_HALF:
        return begin, 1.0
    parts = [(at, _test(series[at : at + half])) for at in (begin, begin + half // 2, end - half)]
    at, (cut, p) = min(parts, key=lambda part: part[1][1])
    return at + cut, min(1.0, len(parts) * p)


def _test(part: NDArray[np.float64]) -> tuple[int, float]:
    """The most surprising split of a part, and the p-value of there being one so surprising."""
    if len(part) < MIN_BEFORE + MIN_AFTER or part.min() == part.max():
        return 0, 1.0
    ranks = _mid_ranks(part)
    surprise = _surprise(ranks[np.newaxis])[0]
    place = int(np.argmax(surprise))
    null = _null(tuple(np.sort(ranks)))
    return MIN_BEFORE + place, float((1 + np.sum(null >= surprise[place] - 1e-9)) / (1 + len(null)))


def _mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    ordered = np.sort(values)
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    ranks: NDArray[np.float64] = (left + right + 1) / 2
    return ranks


def _surprise(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log of the rank-sum test's p at each place; ``ranks`` (series, nights) -> (series, places).

    A place near the end has few nights behind it, and its rank sum a bound: were the statistic itself
    compared, such a place could never win. Its p-value can.
    """
    n = ranks.shape[1]
    sums = np.cumsum(ranks, axis=1)
    places = []
    for cut in range(MIN_BEFORE, n - MIN_AFTER + 1):
        deviation = np.abs(2 * sums[:, cut - 1] - cut * (n + 1))
        places.append(_log_tail(n, min(cut, n - cut))[np.rint(deviation).astype(int)])
    return -np.stack(places, axis=1)


@lru_cache(maxsize=4096)
def _log_tail(n: int, few: int) -> NDArray[np.float64]:
    """log P(|2 S - few (n+1)| >= d), indexed by d, S the sum of ``few`` of the ranks 1..n drawn at random."""
    size = few * (n - few) + 1
    if few > _EXACT:
        deviation_sd = math.sqrt(few * (n - few) * (n + 1) / 3)
        return np.array([math.log(math.erfc(d / deviation_sd / math.sqrt(2)) + 1e-300) for d in range(size)])
    ways = np.zeros((few + 1, few * n + 1))
    ways[0, 0] = 1.0
    for rank in range(1, n + 1):
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    deviation = np.abs(2 * np.arange(ways.shape[1]) - few * (n + 1))
    counts = np.zeros(max(size, int(deviation.max()) + 1))
    np.add.at(counts, deviation, ways[few])
    tail = np.cumsum(counts[::-1])[::-1][:size]
    found: NDArray[np.float64] = np.log(tail / tail[0])
    return found


@lru_cache(maxsize=64)
def _null(ordered: tuple[float, ...]) -> NDArray[np.float64]:
    """The greatest surprise of each of ``PERMUTATIONS`` shuffles; depends on length and ties alone."""
    rng = np.random.default_rng(_SEED)
    shuffled = rng.permuted(np.tile(np.asarray(ordered), (PERMUTATIONS, 1)), axis=1)
    greatest: NDArray[np.float64] = _surprise(shuffled).max(axis=1)
    return greatest
