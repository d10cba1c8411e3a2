"""Beforehand: how likely the exact rule decides, wrongly or rightly, for a service of a stated quality.

All numbers are exact binomial sums; ``effect`` samples count as one, as in the rule
itself. The rule estimates that number from the run, which costs a little: all is computed for ``ESTIMATION``
times fewer samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from chaosflow.sla.binomial import PASS_LEVEL, lower_tail, upper_tail
from chaosflow.sla.exact import WINDOWS_PART

HEALTHY = 0.5
"""A healthy service exceeds in this part of what is allowed."""
BROKEN = 3.0
"""A broken one in so many times what is allowed."""
SURE = 0.95
ESTIMATION = 1.35
_MOST = 1 << 40
_NORMAL = NormalDist()
_Z95 = 1.645


@dataclass(frozen=True, slots=True)
class Chances:
    """What the rule makes of one objective in one segment."""

    passes: float
    """That a healthy service passes."""
    false_alarm: float
    """That a healthy service fails."""
    miss: float
    """That a broken one does not fail."""
    false_pass: float
    """That a broken one passes."""


def chances(
    n: int, p0: float, alpha: float, *, effect: float = 1.0, healthy: float = HEALTHY, broken: float = BROKEN
) -> Chances:
    """For ``n`` planned samples; ``healthy`` and ``broken`` are factors of the allowed share ``p0``."""
    size = int(n / effect / ESTIMATION)
    most_passing, least_failing = pass_up_to(size, p0), fail_from(size, p0, alpha * (1 - WINDOWS_PART))
    good, bad = healthy * p0, min(1.0, broken * p0)
    return Chances(
        passes=max(lower_tail(most_passing, size, good), _none_at_all(n, p0, good, effect)),
        false_alarm=upper_tail(least_failing, size, good),
        miss=lower_tail(least_failing - 1, size, bad),
        false_pass=lower_tail(most_passing, size, bad),
    )


def _none_at_all(n: int, p0: float, good: float, effect: float) -> float:
    """The chance to pass without any exceedance: there is no effect to estimate then."""
    return float((1 - good) ** (n / effect)) if lower_tail(0, n, p0) <= PASS_LEVEL else 0.0


def drift_chances(
    n: float, limit: float, alpha: float, windows: int, *, broken: float = BROKEN
) -> Chances | None:
    """For ``n`` requests in so many windows, none of which drifts, or (broken) one by ``broken`` times the limit.

    By the normal approximation of the log ratio of two Poisson counts; None without a request.
    """
    if n <= 0:
        return None
    sd = math.sqrt(2 * windows / n)
    inside = limit - _Z95 * sd
    comparisons = 2 * windows - 1
    reach = limit + _NORMAL.inv_cdf(1 - alpha / comparisons) * sd
    return Chances(
        passes=max(0.0, 1 - 2 * comparisons * (1 - _NORMAL.cdf(inside / sd))),
        false_alarm=min(1.0, 2 * comparisons * (1 - _NORMAL.cdf(reach / sd))),
        miss=_NORMAL.cdf((reach - broken * limit) / sd),
        false_pass=_NORMAL.cdf((inside - broken * limit) / sd),
    )


def drift_from(
    holds: Callable[[Chances], bool], limit: float, alpha: float, windows: int, *, broken: float = BROKEN
) -> int | None:
    """Requests from which the chances of a drift verdict are as wished."""

    def enough(n: int) -> bool:
        found = drift_chances(n, limit, alpha, windows, broken=broken)
        return found is not None and holds(found)

    return _smallest(enough, 1.0)


@lru_cache(maxsize=4096)
def pass_up_to(n: int, p0: float) -> int:
    """The most exceedances with which n samples pass; -1 = they never do."""
    return _last(lambda k: lower_tail(k, n, p0) <= PASS_LEVEL, int(n * p0) + 1)


@lru_cache(maxsize=4096)
def fail_from(n: int, p0: float, alpha: float) -> int:
    """The fewest exceedances with which n samples fail; n + 1 = they never do."""
    return _last(lambda k: upper_tail(k, n, p0) >= alpha, n) + 1


def _last(holds: Callable[[int], bool], most: int) -> int:
    """The largest k in -1..most up to which ``holds`` is true (true first, then false)."""
    low, high = -1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def catches_from(p0: float, alpha: float, *, effect: float = 1.0, broken: float = BROKEN) -> int | None:
    """Samples from which a broken service fails with 95 %; None where it cannot be told from a sound one."""
    return _smallest(lambda n: chances(n, p0, alpha, broken=broken).miss <= 1 - SURE, effect)


def passes_from(p0: float, alpha: float, *, effect: float = 1.0, healthy: float = HEALTHY) -> int | None:
    """Samples from which a healthy service passes with 95 %; None where it never will."""
    return _smallest(lambda n: chances(n, p0, alpha, healthy=healthy).passes >= SURE, effect)


def _smallest(holds: Callable[[int], bool], effect: float) -> int | None:
    """The least n; the chances go up and down by a little with n, so what follows is looked at too."""
    high = 16
    while not (holds(high) and holds(round(1.05 * high)) and holds(round(1.1 * high))):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        if holds(middle) and holds(round(1.05 * middle)):
            high = middle
        else:
            low = middle
    return math.ceil(high * effect)
