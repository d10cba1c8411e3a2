"""Exact tails against scipy and against the published reference values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from chaosflow.sla.binomial import (
    PASS_LEVEL,
    clopper_pearson,
    lower_rank,
    lower_tail,
    needs_more,
    pmf,
    smallest_n,
    upper_rank,
    upper_tail,
)


@pytest.mark.parametrize(
    ("n", "k", "p0", "passes"),
    [
        (100, 0, 0.01, False),
        (298, 0, 0.01, False),
        (299, 0, 0.01, True),
        (600, 1, 0.01, True),
        (600, 2, 0.01, False),
        (1000, 4, 0.01, True),
        (1000, 5, 0.01, False),
        (3000, 20, 0.01, True),
        (58, 0, 0.05, False),
        (59, 0, 0.05, True),
    ],
)
def test_published_pass_boundaries(n: int, k: int, p0: float, passes: bool) -> None:
    assert (lower_tail(k, n, p0) <= PASS_LEVEL) is passes


@given(
    n=st.integers(1, 5000),
    part=st.floats(0, 1),
    p=st.floats(1e-6, 1 - 1e-6),
)
@settings(max_examples=300, deadline=None)
def test_tails_equal_scipy(n: int, part: float, p: float) -> None:
    k = round(part * n)
    law = stats.binom(n, p)
    assert lower_tail(k, n, p) == pytest.approx(law.cdf(k), rel=1e-6, abs=1e-200)
    assert upper_tail(k, n, p) == pytest.approx(law.sf(k - 1), rel=1e-6, abs=1e-200)
    assert pmf(k, n, p) == pytest.approx(law.pmf(k), rel=1e-6, abs=1e-200)


@pytest.mark.parametrize("n", [10**6, 10**7, 10**8])
@pytest.mark.parametrize("p", [0.001, 0.01, 0.5])
@pytest.mark.parametrize("sigmas", [-6.0, -1.0, 0.0, 1.0, 6.0])
def test_tails_stay_exact_up_to_a_hundred_million(n: int, p: float, sigmas: float) -> None:
    k = round(n * p + sigmas * math.sqrt(n * p * (1 - p)))
    assert upper_tail(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-6)
    assert lower_tail(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-6)


@given(n=st.integers(0, 2000), part=st.floats(0, 1), p=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_the_two_tails_of_neighbours_add_up_to_one(n: int, part: float, p: float) -> None:
    k = round(part * n)
    assert lower_tail(k, n, p) + upper_tail(k + 1, n, p) == pytest.approx(1.0, abs=1e-9)


@given(n=st.integers(1, 3000), part=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_clopper_pearson_equals_scipy(n: int, part: float) -> None:
    k = round(part * n)
    want = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(k, n) == pytest.approx((want.low, want.high), abs=1e-8)


def test_clopper_pearson_of_nothing_is_everything() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("n", "q"), [(59, 0.95), (299, 0.99), (1000, 0.5), (5000, 0.99)])
def test_rank_bounds_are_the_tightest_that_cover(n: int, q: float) -> None:
    high, low = upper_rank(n, q), lower_rank(n, q)
    assert high is not None
    assert low is not None
    law = stats.binom(n, q)
    assert law.cdf(high - 1) >= 0.95 > law.cdf(high - 2)
    assert law.sf(low - 1) >= 0.95 > law.sf(low)


def test_too_few_samples_have_no_upper_rank() -> None:
    assert upper_rank(58, 0.95) is None
    assert upper_rank(59, 0.95) == 59
    assert upper_rank(298, 0.99) is None
    assert upper_rank(299, 0.99) == 299
    assert upper_rank(0, 0.5) is None
    assert lower_rank(0, 0.5) is None


@given(k=st.integers(0, 50), p0=st.floats(1e-4, 0.5))
@settings(max_examples=100, deadline=None)
def test_smallest_n_is_the_boundary(k: int, p0: float) -> None:
    n = smallest_n(k, p0)
    assert stats.binom.cdf(k, n, p0) <= 0.05 * (1 + 1e-9)
    assert stats.binom.cdf(k, n - 1, p0) > 0.05 * (1 - 1e-9)
    assert needs_more(n, k, p0) == 0
    assert needs_more(n - 1, k, p0) == 1


def test_no_number_of_samples_follows_from_a_share_of_nothing_or_all() -> None:
    for p0 in (0.0, 1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            smallest_n(0, p0)
