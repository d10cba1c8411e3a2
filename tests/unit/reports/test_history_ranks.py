"""The rank test and its kin against scipy, which is an oracle here and no dependency."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from chaosflow.reports.history.ranks import (
    design_effect,
    exact_rank_p,
    holm,
    newcombe,
    rank_test,
    student_p,
    two_shares_p,
)


@pytest.mark.parametrize("seed", range(5))
def test_rank_test_with_many_ties_agrees_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 12, 180), rng.integers(0, 14, 140)
    ours = rank_test(np.bincount(a, minlength=20), np.bincount(b, minlength=20))
    theirs = stats.mannwhitneyu(b, a, use_continuity=False, method="asymptotic")
    assert student_p(ours.z, math.inf) == pytest.approx(theirs.pvalue, rel=1e-9)
    assert ours.larger_share == pytest.approx(theirs.statistic / (180 * 140))


def test_rank_test_of_nothing_or_of_equals_says_nothing() -> None:
    none, some = np.zeros(3, dtype=np.int64), np.array([0, 5, 0])
    assert rank_test(none, some).z == 0
    assert rank_test(some, some).z == 0


@pytest.mark.parametrize(("t", "df"), [(0.3, 3), (2.3, 7), (-4.0, 1), (12.0, 30), (0.0, 5)])
def test_student_p_agrees_with_scipy(t: float, df: float) -> None:
    assert student_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-9)


@pytest.mark.parametrize(
    ("k1", "n1", "k2", "n2"), [(3, 100, 12, 90), (0, 50, 0, 50), (0, 20, 9, 20), (40, 41, 1, 7)]
)
def test_two_shares_agree_with_fishers_exact_test(k1: int, n1: int, k2: int, n2: int) -> None:
    theirs = stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue
    assert two_shares_p(k1, n1, k2, n2) == pytest.approx(theirs, rel=1e-9)


def test_newcombe_gives_the_published_interval() -> None:
    # Newcombe 1998, table II, row a: 56/70 and 48/80, method 10
    low, high = newcombe(48, 80, 56, 70)
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_holm_is_bonferroni_for_the_least_and_never_falls() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize("seed", range(4))
def test_exact_rank_p_agrees_with_scipys_exact_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = list(rng.standard_normal(14)), list(rng.standard_normal(5) + 1)
    assert exact_rank_p(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue, rel=1e-9)


def test_exact_rank_p_with_ties_counts_every_assignment() -> None:
    a, b = [1.0, 2, 2, 3, 5], [2.0, 5, 5]
    ranks = stats.rankdata([*a, *b])
    seen = abs(sum(ranks[5:]) - 3 * ranks.mean())
    ways = [abs(sum(ranks[list(c)]) - 3 * ranks.mean()) >= seen - 1e-9 for c in combinations(range(8), 3)]
    assert exact_rank_p(a, b) == pytest.approx(sum(ways) / len(ways))


def test_correlated_requests_weigh_less() -> None:
    """One slow second hits every request in it: 20 seconds of 50 equal requests are 20 samples, not 1,000."""
    rng = np.random.default_rng(1)
    values = np.array([0.0, 1.0])
    slow = rng.random(200) < 0.2
    bursts = np.array([[0, 50] if s else [50, 0] for s in slow])
    assert design_effect(values, bursts) == pytest.approx(50, rel=0.25)
    alone = rng.binomial(50, 0.2, 200)
    assert design_effect(values, np.stack([50 - alone, alone], axis=1)) < 1.6
