"""The design effect: how much less n samples say when they come in bursts.

One slow engine step hits every stream at once, so k exceedances are not k independent ones. The
variance of k/n is estimated from one-second blocks as that of a ratio (Cochran, "Sampling
Techniques", 3rd ed., 6.4) and set against the binomial one. Seconds that go together add their
products by Bartlett's weights up to a lag of 4 s (Newey and West, 1987), so that a burst counts about once
wherever it begins. But no more samples count as one than come in 2 s on the segment's average: what lasts longer
is no slow step but an outage, and an outage counts by its length, also where its backlog ends in one second
(docs/verdicts.md has the figures).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

LAGS = 4
LONGEST_BURST_S = 2
"""What lasts longer counts by its length."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def design_effect(second: Ints, n: Ints, k: Ints) -> float:
    """At least 1, from blocks of n samples and k exceedances in order of their second.

    1 where nothing can be told: no exceedance, nothing but exceedances, or fewer than two blocks.
    """
    filled = n > 0
    second, n, k = second[filled], n[filled], k[filled]
    size, total_n, total_k = len(n), int(n.sum()), int(k.sum())
    if size < 2 or total_k == 0 or total_k == total_n:
        return 1.0
    share = total_k / total_n
    residuals = np.zeros(int(second[-1] - second[0]) + 1)
    residuals[second - second[0]] = k - share * n
    own = float(residuals @ residuals)
    variance = max(own, own + _neighbours(residuals)) * size / (size - 1)
    most = LONGEST_BURST_S * total_n / len(residuals)
    return max(1.0, min(most, variance / (total_n * share * (1 - share))))


def _neighbours(residuals: Floats) -> float:
    """Twice the weighted sum of products of seconds that lie 1 to ``LAGS`` apart."""
    products = [
        float(residuals[:-lag] @ residuals[lag:]) for lag in range(1, min(LAGS, len(residuals) - 1) + 1)
    ]
    return 2 * sum((1 - lag / (LAGS + 1)) * p for lag, p in enumerate(products, 1))


def effective_for_fail(n: int, k: int, effect: float) -> tuple[int, int]:
    """(n, k) divided by the effect, rounded against the claim "too many exceedances"."""
    return math.ceil(n / effect), math.floor(k / effect)


def effective_for_pass(n: int, k: int, effect: float) -> tuple[int, int]:
    """(n, k) divided by the effect, rounded against the claim "few enough exceedances"."""
    return math.floor(n / effect), math.ceil(k / effect)
