"""Relative limits (``ttft.p99 <= 1.5x baseline``), fixed when the baseline ends."""

from __future__ import annotations

from chaosflow.core.histogram import Histogram
from chaosflow.core.slo import Objective
from chaosflow.sla.binomial import lower_rank, upper_rank

_HISTOGRAM_ERROR = 0.005
_NS = 1e9


def relative_limits(
    objective: Objective, histogram: Histogram | None, failed: int = 0
) -> tuple[float, float] | None:
    """(fail_s, pass_s): factor x the upper and the lower 95 % order-statistic bound of the baseline.

    ``histogram`` holds the baseline's successes in ns, ``failed`` its failures (they stand above all
    successes). The histogram's own error is taken against the claim on both sides. None when the
    objective is absolute or the baseline holds too few samples (p95: 59, p99: 299).
    """
    if not objective.relative or histogram is None:
        return None
    n = histogram.total + failed
    low, high = lower_rank(n, objective.q), upper_rank(n, objective.q)
    if low is None or high is None:
        return None
    low_ns, high_ns = histogram.rank_ns(low), histogram.rank_ns(high)
    if low_ns is None or high_ns is None:
        return None
    fail_s = objective.limit * high_ns * (1 + _HISTOGRAM_ERROR) / _NS
    pass_s = objective.limit * low_ns * (1 - _HISTOGRAM_ERROR) / _NS
    return fail_s, pass_s
