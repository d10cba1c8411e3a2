"""Answers while the run goes on."""

from __future__ import annotations

import time

from sla_build import evidence, histogram, traffic, with_samples

from chaosflow.core.grammar import parse_abort
from chaosflow.core.slo import State
from chaosflow.core.slots import Cell, CellStore
from chaosflow.sla.live import aborts, objective_states

ERRORS = parse_abort("error_rate > 50% for 10s")
SLOW = parse_abort("ttft.p95 > 1s for 10s")


def test_objectives_stand_where_they_were_tested_last() -> None:
    made = evidence(
        ["ttft.p95 <= 200ms", "error_rate <= 5% during baseline", "recovery <= 10s"], faults=["a"]
    )
    with_samples(made, 0, "a.recovery", 600, 90)
    with_samples(made, 1, "baseline", 40, 0)
    made.store.watermarks["w0"] = made.ended_ns or 0
    slow, errors, recovery = objective_states(made)
    assert slow == (State.FAIL, "a.recovery: 15 % of 600, 5 % allowed")
    assert errors == (State.INCONCLUSIVE, "baseline: 0 % of 40, 5 % allowed; 19 more needed")
    assert recovery == (None, "told at the end")


def test_an_active_fault_is_shown_before_the_rest() -> None:
    made = evidence(["ttft.p95 <= 200ms"], faults=["a"])
    made.segments.faults["a"].revert_begin = None
    made.segments.faults["a"].revert_ack = None
    made.segments._spans = None
    with_samples(made, 0, "baseline", 600, 0)
    made.store.cells[70, "a", 0] = Cell(10, 9, 9, 9, 9)
    made.store.watermarks["w0"] = made.t0_ns + 90 * 10**9
    assert objective_states(made)[0] == (State.FAIL, "a: 90 % of 10, 5 % allowed")


def test_no_samples_yet_is_no_state() -> None:
    assert objective_states(evidence(["ttft.p95 <= 200ms"])) == [(None, "baseline: no samples yet")]


def test_a_live_answer_is_cheap_in_a_long_run() -> None:
    made = evidence([f"ttft.p95 <= {n}ms" for n in range(100, 110)], baseline_s=600, faults=["a"])
    for index in range(10):
        with_samples(made, index, "baseline", 6000, 60)
        with_samples(made, index, "a.recovery", 600, 6)
    made.store.watermarks["w0"] = made.ended_ns or 0
    objective_states(made)
    times_s = []
    for _ in range(10):
        begin = time.perf_counter()
        objective_states(made)
        times_s.append(time.perf_counter() - begin)
    assert min(times_s) < 0.02


def test_a_lasting_outage_aborts() -> None:
    store = CellStore()
    traffic(store, range(20))
    traffic(store, range(20, 30), failed=15)
    assert aborts([ERRORS], store, 29) is ERRORS
    assert aborts([ERRORS], store, 27) is None


def test_a_burst_of_fast_errors_is_not_for_10s() -> None:
    store = CellStore()
    traffic(store, range(28))
    traffic(store, range(28, 30), requests=1000, failed=1000)
    assert aborts([ERRORS], store, 29) is None


def test_too_few_samples_never_abort() -> None:
    """pyrra 1925: one error at low traffic pages."""
    store = CellStore()
    traffic(store, range(0, 10, 2), requests=1, failed=1)
    assert aborts([ERRORS], store, 9) is None
    assert aborts([ERRORS], CellStore(), 9) is None


def test_a_rule_waits_for_its_whole_span() -> None:
    store = CellStore()
    traffic(store, range(10), failed=20)
    assert aborts([ERRORS], store, 8) is None
    assert aborts([ERRORS], store, 9) is ERRORS


def test_a_slow_service_aborts_by_its_percentile_and_failures_are_slow() -> None:
    store = CellStore()
    traffic(store, range(10))
    for second in range(10):
        store.recent[second, "ttft"] = histogram([0.1] * 20)
    assert aborts([SLOW], store, 9) is None
    traffic(store, range(10), failed=5)
    assert aborts([SLOW], store, 9) is SLOW
    traffic(store, range(10))
    for second in range(10):
        store.recent[second, "ttft"] = histogram([2.0] * 20)
    assert aborts([SLOW], store, 9) is SLOW
