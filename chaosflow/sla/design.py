"""The design effect: how much less n samples say when they come in bursts.

One slow engine step hits every stream at once, so k exceedances are not k independent ones. The
variance of k/n is estimated from one-second blocks as that of a ratio (Cochran, "Sampling
Techniques", 3rd ed., 6.4) and set against the binomial one. Neighbouring seconds that go together
add half their product (Bartlett's weight at lag 1; Newey and West, 1987), because a burst may lie
across the edge of two: with bursts of up to 2 s at exactly the allowed share the test then keeps its
level, where blocks alone fail up to twice as often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_BARTLETT = 0.5


def design_effect(blocks: Sequence[tuple[int, int, int]]) -> float:
    """At least 1, from blocks of (second, n, k) in order of their second.

    1 where nothing can be told: no exceedance, nothing but exceedances, or fewer than two blocks.
    """
    filled = [(s, n, k) for s, n, k in blocks if n > 0]
    size = len(filled)
    n = sum(b[1] for b in filled)
    k = sum(b[2] for b in filled)
    if size < 2 or k == 0 or k == n:
        return 1.0
    share = k / n
    residuals = [(s, k_i - share * n_i) for s, n_i, k_i in filled]
    own = sum(r * r for _, r in residuals)
    neighbours = 2 * _BARTLETT * sum(a * b for (s, a), (next_s, b) in pairwise(residuals) if next_s == s + 1)
    variance = (own + max(0.0, neighbours)) * size / (size - 1)
    return max(1.0, variance / (n * share * (1 - share)))


def effective_for_fail(n: int, k: int, effect: float) -> tuple[int, int]:
    """(n, k) divided by the effect, rounded against the claim "too many exceedances"."""
    return math.ceil(n / effect), math.floor(k / effect)


def effective_for_pass(n: int, k: int, effect: float) -> tuple[int, int]:
    """(n, k) divided by the effect, rounded against the claim "few enough exceedances"."""
    return math.floor(n / effect), math.ceil(k / effect)
