"""Recovery, from the client's tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sla_build import T0_NS, evidence, segment_map, traffic

from chaosflow.core.grammar import parse_objective
from chaosflow.core.slo import State
from chaosflow.core.slots import Count
from chaosflow.sla.evidence import Evidence, FaultFact, Recovery
from chaosflow.sla.recovery import judge_recovery, measure_recoveries

LIMIT = parse_objective("recovery <= 10s")


def run(*, slow_until_s: int = 0, dead_until_s: int = 0, baseline_s: float = 60) -> Evidence:
    """One fault from 65 to 95 s, watched to 125 s; slow or dead from its injection for so long."""
    made = evidence(["recovery <= 10s"], baseline_s=baseline_s, faults=["pause"])
    begin = int(5 + baseline_s)
    if slow_until_s:
        traffic(made.store, range(begin, slow_until_s), ttft_s=0.5)
    if dead_until_s:
        traffic(made.store, range(begin, dead_until_s), failed=20)
    return made


def measured(made: Evidence) -> Recovery:
    return measure_recoveries(made)[made.faults[0].name]


def test_a_service_that_never_suffered_recovers_at_once() -> None:
    recovery = measured(run())
    assert recovery.measured
    assert recovery.seconds == 0.0
    assert recovery.time_to_detect_s is None


def test_recovery_counts_from_the_revert_to_the_first_good_run() -> None:
    recovery = measured(run(dead_until_s=102))
    assert recovery.seconds == 7.0
    assert recovery.time_to_detect_s == 1.0
    assert judge_recovery(LIMIT, recovery).state is State.PASS
    assert "recovered 7 s after the revert" in recovery.sentence


def test_latency_counts_and_not_only_tokens() -> None:
    recovery = measured(run(slow_until_s=110))
    assert recovery.seconds == 15.0
    assert judge_recovery(LIMIT, recovery).state is State.FAIL


def test_failures_count_where_tokens_and_latency_are_as_before() -> None:
    made = run()
    traffic(made.store, range(95, 103), failed=1, tokens=200)
    assert measured(made).seconds == 8.0


def test_two_good_buckets_are_no_recovery() -> None:
    made = run(dead_until_s=100)
    traffic(made.store, range(96, 98))
    assert measured(made).seconds == 5.0


def test_not_recovered_is_censored_and_never_zero() -> None:
    recovery = measured(run(dead_until_s=125))
    assert recovery.measured
    assert recovery.seconds is None
    assert recovery.watched_s == 30.0
    verdict = judge_recovery(LIMIT, recovery)
    assert verdict.state is State.FAIL
    assert verdict.sentence.startswith("not recovered within the 30 s watched")
    patient = parse_objective("recovery <= 60s")
    assert judge_recovery(patient, recovery).state is State.INCONCLUSIVE


def test_a_recovery_that_began_in_time_but_too_late_to_be_seen_does_not_fail() -> None:
    """Three good buckets count; of a watch of 12 s only two are left after one that began at 10 s."""
    made = run(dead_until_s=105)
    recovery = measured(replace(made, segments=segment_map(faults={"pause": (65, 95, 107)})))
    assert (recovery.seconds, recovery.watched_s, recovery.good_for_s) == (None, 12.0, 2.0)
    verdict = judge_recovery(parse_objective("recovery <= 11s"), recovery)
    assert verdict.state is State.INCONCLUSIVE
    assert "its last 2 s were good" in verdict.sentence
    assert "phases.recovery" in verdict.sentence
    assert judge_recovery(parse_objective("recovery <= 9s"), recovery).state is State.FAIL


@pytest.mark.parametrize("watched_s", [0, 1, 2])
def test_a_watch_too_short_for_three_buckets_measures_nothing(watched_s: int) -> None:
    """After an abort: "not recovered within the 1.57 ms watched"; with "recovery <= 1s" it failed."""
    made = replace(run(), segments=segment_map(faults={"pause": (65, 95, 95 + watched_s)}))
    recovery = measured(made)
    assert not recovery.measured
    assert recovery.sentence.startswith("not measured: it was watched for ")
    assert judge_recovery(parse_objective("recovery <= 1s"), recovery).state is State.INCONCLUSIVE


def test_times_are_monotonic_and_independent_of_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """dynamo PR 3289: a time-zone mix made a recovery of 25,230 s of one of 30 s."""
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    assert measured(run(dead_until_s=102)).seconds == 7.0


def test_twenty_baseline_buckets_are_needed() -> None:
    recovery = measured(run(baseline_s=19))
    assert not recovery.measured
    assert "20 are needed" in recovery.sentence
    assert judge_recovery(LIMIT, recovery).state is State.INCONCLUSIVE
    assert measured(run(baseline_s=20)).measured


def test_buckets_are_as_wide_as_fifty_events_need() -> None:
    made = run()
    for second in range(125):
        made.store.counts[second, "*"] = Count(2, 2, 2, 0, 2, 20, 0, 20)
    assert measured(made).bucket_s == 3.0


def test_nothing_is_measured_where_the_scenario_goes_on_at_once() -> None:
    made = run()
    made = replace(made, faults=(replace(made.faults[0], recovery_measured=False),))
    recovery = measured(made)
    assert not recovery.measured
    assert judge_recovery(LIMIT, recovery).state is State.INCONCLUSIVE


def test_nothing_is_measured_while_another_fault_acts() -> None:
    made = run()
    times = {"pause": (65.0, 95.0, 125.0), "jitter": (70.0, 115.0, 125.0)}
    made = replace(made, segments=segment_map((5, 65), times))
    assert measured(made).sentence == "not measured: fault jitter was still active"


def test_a_later_fault_ends_the_watch() -> None:
    made = run(dead_until_s=125)
    times = {"pause": (65.0, 95.0, 125.0), "jitter": (105.0, 115.0, 125.0)}
    made = replace(made, segments=segment_map((5, 65), times))
    assert measured(made).watched_s == 10.0


def test_an_irreversible_fault_counts_from_its_injection() -> None:
    made = run(dead_until_s=72)
    made = replace(
        made,
        segments=segment_map((5, 65), {"pause": (65.0, 0.0, 125.0)}, irreversible=["pause"]),
        faults=(FaultFact("pause", reversible=False, confirmed=True),),
    )
    recovery = measured(made)
    assert recovery.seconds == 7.0
    assert "after the injection" in recovery.sentence


def test_a_fault_never_reverted_has_no_recovery() -> None:
    made = replace(run(), segments=segment_map((5, 65)))
    assert not measured(made).measured


def test_lost_requests_are_those_of_the_fault_and_its_recovery() -> None:
    made = run()
    made.store.counts[70, "pause"] = Count(resolved=20, failed=3)
    made.store.counts[96, "pause.recovery"] = Count(resolved=20, failed=2)
    made.store.counts[30, "baseline"] = Count(resolved=200, failed=9)
    recovery = measured(made)
    assert recovery.requests_lost == 5
    assert recovery.sentence.endswith("; 5 requests lost")


def test_an_open_watch_ends_with_the_run() -> None:
    made = run(dead_until_s=125)
    made.segments.faults["pause"].recovery_end = None
    made.segments._spans = None
    assert measured(replace(made, ended_ns=T0_NS + 110 * 10**9)).watched_s == 15.0


def test_requests_killed_in_an_edge_are_lost_to_the_fault() -> None:
    """What a reset kills before it is acknowledged stood in no count at all."""
    made = run()
    made.store.counts[65, "pause.inject"] = Count(resolved=20, failed=13)
    made.store.counts[95, "pause.revert"] = Count(resolved=2, failed=1)
    assert measured(made).requests_lost == 14


def test_a_failing_baseline_is_no_measure_of_recovery() -> None:
    """154 of 155 requests of a baseline had failed, and each fault was "recovered at once"."""
    made = run()
    traffic(made.store, range(5, 65), failed=19)
    for second in range(5, 65):
        made.store.counts[second, "baseline"] = Count(resolved=20, failed=19)
    recovery = measured(made)
    assert not recovery.measured
    assert recovery.seconds is None
    assert recovery.sentence.startswith("not measured: the baseline was failing (95% of its requests)")
    assert judge_recovery(LIMIT, recovery).state is State.INCONCLUSIVE


@pytest.mark.parametrize(("failed", "is_measure"), [(2, True), (3, False)])
def test_more_than_a_tenth_of_failures_is_no_measure(failed: int, is_measure: bool) -> None:
    made = run()
    for second in range(5, 65):
        made.store.counts[second, "baseline"] = Count(resolved=20, failed=failed)
    assert measured(made).measured is is_measure


def test_a_few_failures_in_the_baseline_leave_it_a_measure() -> None:
    made = run()
    for second in range(5, 65):
        made.store.counts[second, "baseline"] = Count(resolved=20, failed=1)
    assert measured(made).measured


def test_a_short_baseline_is_no_stricter_than_a_long_one() -> None:
    """Its minimum of 20 buckets is undercut by every 21st healthy one: it is widened to what 100 would show."""
    rng = np.random.default_rng(4)
    at_once = {}
    for baseline_s in (20, 120):
        seconds = []
        for _ in range(40):
            made = run(baseline_s=baseline_s)
            for second in range(int(baseline_s) + 65):
                count = int(rng.poisson(20))
                traffic(made.store, [second], requests=count, ttft_s=0.05 * float(rng.lognormal(0, 0.1)))
            found = measured(made)
            seconds.append(found.seconds)
        at_once[baseline_s] = sum(s == 0 for s in seconds) / len(seconds)
    assert at_once[20] >= 0.7
    assert abs(at_once[20] - at_once[120]) <= 0.25


def test_what_is_clearly_worse_than_a_short_baseline_is_still_bad() -> None:
    assert measured(run(baseline_s=20, dead_until_s=62)).seconds == 7.0


def test_one_bad_bucket_detects_nothing_two_in_a_row_do() -> None:
    made = run()
    traffic(made.store, [70], failed=20)
    assert measured(made).time_to_detect_s is None
    traffic(made.store, [75, 76], failed=20)
    assert measured(made).time_to_detect_s == 11.0


def test_lost_tokens_are_the_area_below_the_baselines_rate() -> None:
    assert measured(run(dead_until_s=102)).tokens_lost == 37 * 200
    assert measured(run()).tokens_lost == 0
    assert measured(run(dead_until_s=125)).tokens_lost == 60 * 200
