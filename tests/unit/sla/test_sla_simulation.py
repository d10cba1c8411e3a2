"""A thousand healthy runs: how often would one fail?"""

from __future__ import annotations

import numpy as np
import pytest
from sla_build import cells

from chaosflow.core.slo import State
from chaosflow.sla.exact import decide
from chaosflow.sla.spans import Seconds, tumbling

RUNS, OBJECTIVES, SEGMENTS, SECONDS = 1000, 3, 3, 45
ALPHA = 0.05 / (OBJECTIVES * SEGMENTS)


def run_fails(rng: np.random.Generator, p0: float, share: np.ndarray, rate: float) -> bool:
    """Whether any of the run's tests fails; ``share`` of exceedances by [test, second]."""
    n = rng.poisson(rate, share.shape)
    k = rng.binomial(n, share)
    for row_n, row_k in zip(n.tolist(), k.tolist(), strict=True):
        blocks = cells(zip(row_n, row_k, strict=True))
        windows = tumbling(blocks, Seconds(0.0, SECONDS), 60.0)
        if decide(blocks, p0, ALPHA, windows).state is State.FAIL:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("p0", [0.01, 0.05])
def test_healthy_runs_fail_at_most_five_times_in_a_hundred(p0: float) -> None:
    """Every objective exactly at its limit in every segment: the worst that is still healthy."""
    rng = np.random.default_rng(21)
    share = np.full((OBJECTIVES * SEGMENTS, SECONDS), p0)
    fails = sum(run_fails(rng, p0, share, 20.0) for _ in range(RUNS))
    assert fails / RUNS <= 0.05


@pytest.mark.slow
def test_healthy_runs_with_shared_bursts_fail_at_most_five_times_in_a_hundred() -> None:
    """Slow engine steps hit every stream of a second at once."""
    rng = np.random.default_rng(22)
    fails = 0
    for _ in range(RUNS):
        bursts = rng.random((OBJECTIVES * SEGMENTS, SECONDS)) < 0.05 / 0.5
        fails += run_fails(rng, 0.05, np.where(bursts, 0.5, 0.0), 200.0)
    assert fails / RUNS <= 0.06
