"""Error budget, burn rates, sliding windows: what would have paged. None of it decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sla_build import evidence, with_samples

from chaosflow.core.budget import BurnRate
from chaosflow.core.slo import State
from chaosflow.sla.budget import Samples, budget_of, samples_of, sliding_of
from chaosflow.sla.judge import judge

P0 = 0.01


def samples(n: int | list[int], k: dict[int, int] | list[int], seconds: int = 3600) -> Samples:
    every = np.full(seconds, n, np.int64) if isinstance(n, int) else np.array(n, np.int64)
    bad = np.zeros(len(every), np.int64)
    for second, count in k.items() if isinstance(k, dict) else enumerate(k):
        bad[second] = count
    return Samples(0, every, bad)


def pair(made: Samples, factor: float) -> BurnRate:
    return next(b for b in budget_of(made, P0).burn if b.factor == factor)


def test_the_budget_is_what_may_exceed_and_the_rest_is_left() -> None:
    budget = budget_of(samples(10, {100: 90, 200: 90}), P0)
    assert (budget.n, budget.bad) == (36_000, 180)
    assert budget.spent == pytest.approx(0.5)
    assert budget.period_s == 3600.0


def test_windows_follow_the_length_of_the_run() -> None:
    """Workbook, chapter 5: 1 h and 5 min, 6 h and 30 min, 3 d and 6 h of 30 d."""
    month = budget_of(samples(1, {}, 30 * 86_400), P0)
    assert [(b.factor, b.long_s, b.short_s) for b in month.burn] == [
        (14.4, 3600, 300),
        (6.0, 6 * 3600, 1800),
        (1.0, 3 * 86_400, 6 * 3600),
    ]
    assert [round(b.budget_part, 4) for b in month.burn] == [0.02, 0.05, 0.1]
    assert [b.long_s for b in budget_of(samples(1, {}, 100), P0).burn] == [12, 30]
    assert budget_of(samples(1, {}, 20), P0).burn == ()


def test_a_burst_alarms_at_once_and_the_alarm_ends_with_it() -> None:
    made = samples(20, dict.fromkeys(range(1000, 1010), 20))
    (alarm,) = pair(made, 14.4).alarms
    assert 1001 <= alarm.begin_s <= 1003
    assert 1010 <= alarm.end_s <= 1012
    assert alarm.peak > 14.4
    assert budget_of(made, P0).alarmed


def test_a_slow_burn_alarms_only_in_the_long_pair() -> None:
    rng = np.random.default_rng(1)
    made = samples(50, rng.binomial(50, 2.5 * P0, 3600).tolist())
    assert pair(made, 1.0).alarms
    assert not pair(made, 14.4).alarms


def test_burn_rates_are_compared_unrounded() -> None:
    """slo-generator source: 0.996 rounded to 1.0 alarmed."""
    just_below = samples(1000, [9, 10] * 1800)  # 0.95 % of 1 %
    assert pair(just_below, 1.0).peak == pytest.approx(0.95, abs=1e-3)
    assert pair(just_below, 1.0).peak != 1.0
    assert pair(samples(1000, [9] * 59 + [10] * 3541), 1.0).alarms == ()  # exactly 1: no evidence against it


def test_one_error_at_low_traffic_does_not_page() -> None:
    """pyrra 1925."""
    seconds = [1 if s % 10 == 0 else 0 for s in range(3600)]
    assert not budget_of(samples(seconds, {1200: 1}), P0).alarmed
    assert budget_of(samples(seconds, {1200: 1, 1210: 1, 1220: 1, 1230: 1}), P0).alarmed


def test_no_samples_spend_nothing_and_a_limit_of_zero_has_no_budget() -> None:
    empty = budget_of(samples(0, {}), P0)
    assert empty.spent is None
    assert empty.burn == ()
    assert budget_of(samples(10, {5: 1}), 0.0).spent is None


def test_sliding_windows_alarm_where_the_last_seconds_were_over() -> None:
    made = samples(10, dict.fromkeys(range(500, 503), 10))
    sliding = sliding_of(made, P0, 60.0)
    (alarm,) = sliding.alarms
    assert (alarm.begin_s, alarm.end_s) == (501.0, 562.0)
    assert alarm.peak == pytest.approx(0.05)


def test_the_run_carries_budget_and_alarms_and_the_verdict_does_not_follow_them() -> None:
    made = evidence(["ttft.p95 <= 200ms", "recovery <= 10s"], baseline_s=600, faults=["jitter"])
    for segment, n in (("baseline", 12_000), ("jitter", 600), ("jitter.recovery", 600)):
        with_samples(made, 0, segment, n, 6)
    made.store.cells[300, "baseline", 0] = replace(
        made.store.cells[300, "baseline", 0], n=40, fail_low=40, fail_high=40
    )
    latency, recovery = judge(made).objectives
    assert latency.state is State.PASS
    assert latency.budget is not None
    assert latency.budget.n == 13_220
    assert latency.sliding is not None
    assert recovery.budget is None


def test_two_faults_at_once_both_count() -> None:
    made = evidence(["ttft.p95 <= 200ms"], faults=["a", "b"])
    with_samples(made, 0, "a", 600, 6)
    with_samples(made, 0, "b", 600, 6)
    assert int(samples_of(made, 0).n.sum()) == 1200


def test_of_very_many_alarms_the_worst_are_kept_in_order() -> None:
    made = samples(10, {s: 10 if s % 6000 == 0 else 1 for s in range(0, 86_400, 60)}, 86_400)
    alarms = sliding_of(made, P0, 5.0).alarms
    assert len(alarms) == 100
    assert [a.begin_s for a in alarms] == sorted(a.begin_s for a in alarms)
    assert sum(a.peak > 0.1 for a in alarms) == 15
