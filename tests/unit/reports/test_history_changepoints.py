"""Where a series changed: found, dated to when it began, and not found where nothing did."""

from __future__ import annotations

import numpy as np
import pytest

from chaosflow.reports.history.changepoints import find_changes
from chaosflow.reports.history.metrics import matters

ALPHA = 0.01


def noise(seed: int, nights: int, cv: float = 0.05) -> np.ndarray:
    return 100 * (1 + cv * np.random.default_rng(seed).standard_normal(nights))


def large(before: float, after: float) -> bool:
    return matters("e2e_p95_ms", before, after, 0.1)


@pytest.mark.slow
def test_quiet_series_have_no_change() -> None:
    found = [find_changes(noise(seed, 60), alpha=ALPHA, matters=large) for seed in range(50)]
    assert sum(bool(f) for f in found) <= 1


@pytest.mark.slow
def test_a_step_is_dated_to_its_first_night_however_late_it_is_looked_for() -> None:
    series = noise(3, 60)
    series[40:] *= 1.2
    for nights in (45, 50, 60):
        (change,) = find_changes(series[:nights], alpha=ALPHA, matters=large)
        assert abs(change.index - 40) <= 1
        assert change.after / change.before == pytest.approx(1.2, abs=0.06)


@pytest.mark.slow
def test_two_changes_and_the_way_back_are_all_found() -> None:
    series = noise(4, 60)
    series[20:40] *= 1.3
    assert [
        abs(c.index - wanted) <= 1
        for c, wanted in zip(find_changes(series, alpha=ALPHA), (20, 40), strict=True)
    ]


def test_one_wild_night_is_no_change() -> None:
    series = noise(5, 40)
    series[25] *= 4
    series[39] *= 3
    assert find_changes(series, alpha=ALPHA, matters=large) == []


def test_a_change_too_small_to_matter_is_merged() -> None:
    series = noise(6, 60, cv=0.005)
    series[30:] *= 1.05
    assert len(find_changes(series, alpha=ALPHA)) == 1
    assert find_changes(series, alpha=ALPHA, matters=large) == []


def test_short_constant_and_mostly_tied_series_say_nothing() -> None:
    assert find_changes([], alpha=ALPHA) == []
    assert find_changes([1.0, 2, 3, 4, 5, 6, 7], alpha=ALPHA) == []
    assert find_changes([0.0] * 30, alpha=ALPHA) == []
    assert find_changes([0.0] * 29 + [1.0], alpha=ALPHA) == []


def test_the_same_values_give_the_same_answer() -> None:
    series = noise(8, 30)
    series[20:] *= 1.3
    assert find_changes(series, alpha=ALPHA) == find_changes(list(series), alpha=ALPHA)
