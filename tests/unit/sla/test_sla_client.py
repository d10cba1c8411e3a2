"""Whether the client kept up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sla_build import T0_NS, evidence, histogram, traffic

from chaosflow.core.slots import CellBatch
from chaosflow.sla.client import broken_run, lag_budget_s, lag_p99_s, late, notes


def test_the_budget_of_an_objective_is_five_percent_of_its_own_limit() -> None:
    both = evidence(["ttft.p95 <= 200ms", "e2e.p95 <= 2s"])
    assert lag_budget_s(both, 0) == pytest.approx(0.010)
    assert lag_budget_s(both, 1) == pytest.approx(0.1), "a tight limit elsewhere does not void this one"
    assert lag_budget_s(evidence(["ttft.p95 <= 20ms"]), 0) == 0.002
    assert lag_budget_s(evidence(["gap.p95 <= 50ms"]), 0) == 3.0, (
        "lag is no part of a gap: 5 % of the deadline"
    )
    relative = evidence(["ttft.p95 <= 2x baseline"])
    assert lag_budget_s(replace(relative, limits={0: (0.5, 0.4)}), 0) == pytest.approx(0.020)


def test_a_late_client_makes_its_segment_invalid_with_a_remedy() -> None:
    made = evidence(["ttft.p95 <= 200ms"], faults=["jitter"])
    made.store.by_segment["jitter", "client_lag"] = histogram([0.001] * 900 + [0.050] * 100)
    made.store.by_segment["baseline", "client_lag"] = histogram([0.001] * 1000)
    assert late(made, 0, "baseline") is None
    assert "more workers" in (late(made, 0, "jitter") or "")


def test_one_late_request_proves_nothing() -> None:
    assert lag_p99_s(histogram([0.001] * 59 + [0.5])) == pytest.approx(0.001, rel=0.01)
    assert lag_p99_s(histogram([0.001] * 58 + [0.5, 0.5])) == pytest.approx(0.5, rel=0.01)
    assert lag_p99_s(histogram([0.5])) == pytest.approx(0.5, rel=0.01)
    assert lag_p99_s(None) is None


def test_a_sound_run_breaks_nothing() -> None:
    assert broken_run(evidence(["ttft.p95 <= 200ms"], faults=["jitter"])) == []


def test_a_lost_worker_breaks_the_run() -> None:
    """inference-perf 647, 370: a dead worker hangs the run for ever."""
    made = replace(evidence(["error_rate <= 1%"]), lost_workers=("load worker 1: killed",))
    assert broken_run(made) == ["load worker 1: killed; start again"]


def test_a_missing_batch_breaks_the_run() -> None:
    made = evidence(["error_rate <= 1%"])
    made.store.merge(CellBatch("w0", 1, T0_NS + 200 * 10**9))
    made.store.merge(CellBatch("w0", 3, T0_NS + 200 * 10**9))
    assert "batches 2 to 2 are missing" in broken_run(made)[0]


def test_reaching_the_cap_breaks_the_run_and_names_it() -> None:
    """guidellm 487, 1041: a worker silently capped at 100 streams."""
    assert "load.max_in_flight" in broken_run(replace(evidence(["error_rate <= 1%"]), cap_hits=3))[0]


def test_load_that_was_not_sent_breaks_the_run() -> None:
    made = evidence(["error_rate <= 1%"])
    for second in range(20, 30):
        made.store.counts[second, "*"] = replace(made.store.counts[second, "*"], fired=0)
    assert "only 83.3 % of the intended load" in broken_run(made)[0]


def test_arrivals_that_were_never_even_scheduled_break_the_run() -> None:
    made = evidence(["error_rate <= 1%"])
    traffic(made.store, range(65), requests=14)
    assert "of the intended load" in broken_run(made)[0]
    assert broken_run(replace(made, arrival_kind="closed", rate_per_s=None)) == []


def test_a_poisson_schedule_may_draw_fewer_than_its_rate() -> None:
    """1,200 were scheduled and sent; 22 a second would be 1,320, and 1,210 lie within three standard deviations."""
    assert broken_run(replace(evidence(["error_rate <= 1%"]), rate_per_s=22)) == []


def test_seconds_that_no_worker_has_reported_yet_are_not_missed() -> None:
    made = evidence(["error_rate <= 1%"])
    traffic(made.store, range(40, 65), requests=0)
    made.store.watermarks["w0"] = T0_NS + 40 * 10**9
    assert broken_run(made) == []


def test_a_step_of_the_wall_clock_is_noted_and_breaks_only_when_it_touched_much() -> None:
    made = replace(evidence(["error_rate <= 1%"]), clock_jumps=4)
    assert broken_run(made) == []
    assert notes(made)
    assert "wall clock" in broken_run(replace(made, clock_jumps=400))[0]
