"""Throughput drift: steps, slow slopes, bunched tokens."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sla_build import traffic

from chaosflow.core.grammar import parse_objective
from chaosflow.core.slo import SegmentVerdict, State
from chaosflow.core.slots import CellStore
from chaosflow.sla.drift import Change, dispersion, judge_drift
from chaosflow.sla.spans import Seconds

DRIFT = parse_objective("throughput.drift within 15%")
BASELINE = Seconds(0.0, 180.0)


def store_of(requests: Iterable[int], tokens_each: int = 10, first: int = 0) -> CellStore:
    store = CellStore()
    for i, n in enumerate(requests):
        traffic(store, [first + i], requests=int(n), tokens=int(n) * tokens_each)
    return store


def judged(store: CellStore, segment: str = "baseline", span: Seconds | None = BASELINE) -> SegmentVerdict:
    return judge_drift(
        DRIFT, segment, store, alpha=0.05 / 12, span=span, baseline=BASELINE, window_s=30.0, poisson=True
    )


def test_a_steady_rate_passes() -> None:
    rng = np.random.default_rng(3)
    assert judged(store_of(rng.poisson(40, 180))).state is State.PASS


def test_a_drop_by_half_fails() -> None:
    rng = np.random.default_rng(4)
    rate = np.where(np.arange(180) < 90, 40, 20)
    verdict = judged(store_of(rng.poisson(rate)))
    assert verdict.state is State.FAIL
    assert verdict.observed is not None
    assert verdict.observed < -0.3


def test_a_rise_fails_too() -> None:
    """Fast errors look like throughput."""
    rng = np.random.default_rng(5)
    rate = np.where(np.arange(180) < 90, 40, 80)
    assert judged(store_of(rng.poisson(rate))).state is State.FAIL


@pytest.mark.slow
def test_many_windows_just_at_the_limit_fail_no_more_often_than_one_may() -> None:
    """Each of the six is set against the baseline: the level is shared among all comparisons."""
    rng = np.random.default_rng(8)
    runs, fails = 200, 0
    for _ in range(runs):
        store = store_of([*rng.poisson(40, 180), *rng.poisson(0.85 * 40, 180)])
        verdict = judge_drift(
            DRIFT, "jitter", store, alpha=0.05, span=Seconds(180.0, 360.0), baseline=BASELINE, window_s=30.0,
            poisson=True,
        )  # fmt: skip
        fails += verdict.state is State.FAIL
    assert fails / runs <= 0.09


def test_several_small_steps_below_the_threshold_fail_against_the_baseline() -> None:
    """asv 932: several small steps, each below the threshold."""
    rate = 100 * 0.9 ** (np.arange(180) // 30)  # steps of 10 %, 41 % in all
    assert judged(store_of(rate.round().astype(int))).state is State.FAIL


def test_too_little_traffic_is_inconclusive_and_says_what_to_do() -> None:
    rng = np.random.default_rng(6)
    verdict = judged(store_of(rng.poisson(2, 180)))
    assert verdict.state is State.INCONCLUSIVE
    assert "raise the load" in verdict.sentence


def test_no_tokens_at_all_is_inconclusive_never_pass() -> None:
    assert judged(CellStore()).state is State.INCONCLUSIVE
    assert judged(CellStore(), span=None).state is State.INCONCLUSIVE


def test_fewer_than_three_windows_are_inconclusive() -> None:
    assert judged(store_of([40] * 180), span=Seconds(0.0, 2.5)).state is State.INCONCLUSIVE


def test_a_segment_that_goes_silent_fails_against_the_baseline() -> None:
    store = store_of([40] * 180)
    traffic(store, range(180, 240), requests=40, failed=40)
    verdict = judged(store, "jitter", Seconds(180.0, 240.0))
    assert verdict.state is State.FAIL
    assert verdict.observed == -1.0


def test_tokens_that_come_in_bunches_are_worth_less() -> None:
    rng = np.random.default_rng(7)
    assert dispersion([10] * 60, 20) == 1.0
    assert dispersion(list(64 * rng.poisson(20, 600)), 60) == pytest.approx(64, rel=0.3)
    assert dispersion([], 10) == 1.0
    assert dispersion([5], 1) == 1.0


@pytest.mark.slow
def test_poisson_load_at_a_steady_rate_seldom_fails() -> None:
    rng = np.random.default_rng(8)
    fails = sum(judged(store_of(rng.poisson(20, 180))).state is State.FAIL for _ in range(60))
    assert fails <= 1


@given(st.integers(0, 400), st.integers(0, 400), st.floats(0.05, 0.6), st.sampled_from([0.001, 0.025, 0.05]))
def test_beyond_and_within_the_limit_are_what_the_interval_says(
    old: int, new: int, limit: float, level: float
) -> None:
    change = Change("the baseline", 1, 0.0, (old, 30.0), (new, 10.0), 1.0)
    low, high = change.interval(1 - 2 * level)
    near = min(abs(low - limit), abs(high + limit), abs(low + limit), abs(high - limit)) < 1e-6
    if old + new and not near:
        assert change.outside(limit, level) == (low > limit or high < -limit)
        assert change.inside(limit, level) == (-limit <= low and high <= limit)
