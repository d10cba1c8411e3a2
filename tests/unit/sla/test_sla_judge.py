"""From evidence to the verdict of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sla_build import evidence, histogram, with_samples

from chaosflow.core.errors import ExitCode
from chaosflow.core.slo import State
from chaosflow.sla.evidence import Evidence
from chaosflow.sla.judge import baseline_blocks, judge

TTFT, ERRORS = "ttft.p95 <= 200ms", "error_rate <= 5%"
SEGMENTS = ("baseline", "jitter", "jitter.recovery")


def good(objectives: tuple[str, ...] = (TTFT, ERRORS)) -> Evidence:
    made = evidence(objectives, faults=["jitter"])
    for index in range(len(objectives)):
        for segment in SEGMENTS:
            with_samples(made, index, segment, 600, 6)
    return made


def test_a_run_where_everything_holds_passes() -> None:
    verdict = judge(good())
    assert verdict.state is State.PASS
    assert verdict.state.exit_code is ExitCode.PASS
    assert verdict.reason == "all 2 objectives hold"
    assert [s.segment for s in verdict.objectives[0].segments] == list(SEGMENTS)
    assert verdict.recoveries["jitter"].seconds == 0.0


def test_each_fault_is_judged_for_itself() -> None:
    """k6 2379: a whole-run threshold dilutes what one fault did."""
    made = with_samples(good(), 0, "jitter", 600, 120)
    verdict = judge(made)
    assert verdict.state is State.FAIL
    assert [s.state for s in verdict.objectives[0].segments] == [State.PASS, State.FAIL, State.PASS]
    assert verdict.reason.startswith("ttft.p95 <= 200ms is broken: in jitter: ttft over 200 ms in 120 of 600")


def test_a_segment_without_samples_is_inconclusive_never_pass() -> None:
    """k6 1346."""
    made = good()
    for key in [k for k in made.store.cells if k[1] == "jitter"]:
        del made.store.cells[key]
    verdict = judge(made)
    assert verdict.state is State.INCONCLUSIVE
    assert verdict.objectives[0].segments[1].state is State.INCONCLUSIVE


def test_an_empty_run_never_passes() -> None:
    assert judge(evidence([TTFT], faults=["jitter"])).state is State.INCONCLUSIVE
    assert judge(replace(good(), objectives=())).state is State.INCONCLUSIVE


def test_an_objective_that_no_segment_is_judged_by_is_inconclusive() -> None:
    verdict = judge(evidence(["recovery <= 10s"]))
    assert verdict.state is State.INCONCLUSIVE
    assert verdict.objectives[0].sentence == "no segment of this run is judged by it"


def test_an_unconfirmed_fault_is_invalid_whatever_the_numbers_say() -> None:
    """chaosd 273, chaosblade 1315: success reported, no delay in effect."""
    made = good()
    fault = replace(made.faults[0], confirmed=False, error="no delay seen")
    verdict = judge(replace(made, faults=(fault,)))
    assert verdict.state is State.INVALID
    assert verdict.reason == ("fault jitter was not confirmed, so nothing shows that it acted: no delay seen")


def test_a_fault_never_injected_is_not_green() -> None:
    """chaostoolkit-lib 95: fault never injected, run green."""
    made = good()
    fault = replace(made.faults[0], attempted=False, confirmed=False)
    verdict = judge(replace(made, faults=(fault,)))
    assert verdict.state is State.INVALID
    assert verdict.reason == "fault jitter was never injected"


def test_an_abort_fails_and_what_it_cut_off_is_no_measurement_error() -> None:
    made = good()
    fault = replace(made.faults[0], attempted=False, confirmed=False)
    verdict = judge(replace(made, faults=(fault,), aborted="error_rate > 50% for 10s"))
    assert verdict.state is State.FAIL
    assert verdict.reason == "aborted: error_rate > 50% for 10s"


@pytest.mark.parametrize(
    "broken",
    [
        {"lost_workers": ("w0: killed",)},
        {"cap_hits": 1},
        {"broken": ("target never became healthy",)},
    ],
)
def test_a_broken_measurement_beats_fail(broken: dict[str, object]) -> None:
    made = with_samples(good(), 0, "jitter", 600, 120)
    verdict = judge(replace(made, **broken))  # type: ignore[arg-type]
    assert verdict.state is State.INVALID
    assert verdict.state.exit_code is ExitCode.INVALID


def test_a_late_client_makes_only_its_segment_invalid() -> None:
    made = good()
    made.store.by_segment["jitter", "client_lag"] = histogram([0.1] * 100)
    verdict = judge(made)
    assert verdict.state is State.INVALID
    assert [s.state for s in verdict.objectives[0].segments] == [State.PASS, State.INVALID, State.PASS]
    assert "client was late" in verdict.reason


def test_what_is_broken_is_named_also_where_another_objective_proves_nothing() -> None:
    made = with_samples(good(), 1, "baseline", 600, 300)
    made.store.by_segment["jitter", "client_lag"] = histogram([0.1] * 100)
    verdict = judge(made)
    assert (verdict.state, verdict.objectives[1].state) == (State.INVALID, State.FAIL)
    assert "client was late" in verdict.reason
    assert verdict.reason.endswith(f". Broken besides: {made.objectives[1].text}")


def test_alpha_is_shared_by_every_test_of_the_run() -> None:
    assert good().alpha() == pytest.approx(0.05 / 6)
    assert evidence([TTFT + " during baseline"], faults=["jitter"]).alpha() == pytest.approx(0.05)
    assert evidence([TTFT, "recovery <= 10s"], faults=["a", "b"]).alpha() == pytest.approx(0.05 / 5)


def test_a_bad_baseline_stops_the_run_and_says_why() -> None:
    made = with_samples(good(), 0, "baseline", 600, 120)
    why = baseline_blocks(made)
    assert why is not None
    assert why.startswith("no steady state: ttft.p95 <= 200ms fails in the baseline")
    assert baseline_blocks(good()) is None


def test_an_objective_written_for_the_baseline_fails_there_and_stops_nothing() -> None:
    made = with_samples(evidence([TTFT + " during baseline"]), 0, "baseline", 600, 120)
    assert baseline_blocks(made) is None
    assert judge(made).state is State.FAIL


def test_too_few_samples_in_the_baseline_do_not_stop_the_run() -> None:
    assert baseline_blocks(with_samples(evidence([TTFT]), 0, "baseline", 5, 1)) is None


def test_the_recovery_objective_has_one_verdict_a_fault() -> None:
    verdict = judge(evidence(["recovery <= 10s"], faults=["a", "b"]))
    assert verdict.state is State.PASS
    assert [s.segment for s in verdict.objectives[0].segments] == ["a.recovery", "b.recovery"]
    assert verdict.objectives[0].sentence.startswith("holds in both segments")


def test_drift_is_judged_from_the_true_totals() -> None:
    verdict = judge(evidence(["throughput.drift within 15% during baseline"], baseline_s=180))
    assert verdict.state is State.INCONCLUSIVE or verdict.state is State.PASS
    assert verdict.objectives[0].segments[0].observed == 0.0


def test_a_relative_objective_is_not_judged_in_the_baseline_it_is_measured_by() -> None:
    made = evidence(["ttft.p95 <= 2x baseline"], faults=["jitter"])
    for segment in ("jitter", "jitter.recovery"):
        with_samples(made, 0, segment, 600, 6)
    undecided = judge(made)
    assert undecided.state is State.INCONCLUSIVE
    assert "too few samples to fix the limit" in undecided.reason
    verdict = judge(replace(made, limits={0: (0.3, 0.28)}))
    assert verdict.state is State.PASS
    assert [s.limit for s in verdict.objectives[0].segments] == [0.28, 0.28]


def test_judging_changes_nothing() -> None:
    made = good()
    before = repr(made.store)
    assert judge(made) == judge(made)
    assert repr(made.store) == before
