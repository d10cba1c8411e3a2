"""The exact rule in one segment: percentiles and shares."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sla_build import cells, histogram, spread

from chaosflow.core.grammar import parse_objective
from chaosflow.core.slo import SegmentVerdict, State
from chaosflow.core.slots import Blocks, Cell
from chaosflow.sla.exact import decide
from chaosflow.sla.limits import relative_limits
from chaosflow.sla.quantile import judge_quantile, observed_quantile
from chaosflow.sla.share import judge_share
from chaosflow.sla.spans import Seconds, tumbling

P95 = parse_objective("ttft.p95 <= 200ms")
ALPHA = 0.05 / 12


def judged(text: str, blocks: Blocks, **more: Any) -> SegmentVerdict:
    objective = parse_objective(text)
    judge: Any = (
        judge_share if objective.metric in ("error_rate", "completeness", "goodput") else judge_quantile
    )
    verdict: SegmentVerdict = judge(objective, "jitter", blocks, alpha=ALPHA, **more)
    return verdict


def test_enough_good_samples_pass_and_the_sentence_has_the_numbers() -> None:
    verdict = judged("ttft.p95 <= 200ms", spread(812, 3))
    assert verdict.state is State.PASS
    assert verdict.sentence == "ttft over 200 ms in 3 of 812 requests (0.369 %, p95 allows 5 %)"


def test_many_bad_samples_fail() -> None:
    verdict = judged("ttft.p95 <= 200ms", spread(812, 90))
    assert verdict.state is State.FAIL
    assert verdict.k_low == verdict.k_high == 90
    assert verdict.needs_more is None


def test_fifty_nine_decide_a_p95_and_fifty_eight_say_how_many_more() -> None:
    assert judged("ttft.p95 <= 200ms", spread(59, 0)).state is State.PASS
    verdict = judged("ttft.p95 <= 200ms", spread(58, 0))
    assert verdict.state is State.INCONCLUSIVE
    assert verdict.needs_more == 1
    assert verdict.sentence.endswith("needs 1 more request with no further exceedance")


def test_the_promised_number_of_further_requests_is_enough() -> None:
    for k in range(6):
        verdict = judged("ttft.p95 <= 200ms", spread(60, k))
        if verdict.needs_more:
            assert judged("ttft.p95 <= 200ms", spread(60 + verdict.needs_more, k)).state is State.PASS


def test_metric_without_samples_is_inconclusive_and_shown() -> None:
    """k6 1346: neither evaluated nor shown."""
    for text in ("tpot.p99 <= 50ms", "gap.p99 <= 50ms", "error_rate <= 1%", "completeness >= 99%"):
        verdict = judged(text, Blocks.of([]))
        assert verdict.state is State.INCONCLUSIVE
        assert verdict.observed is None
        assert "no " in verdict.sentence


def test_absent_times_are_not_zero_times() -> None:
    """vllm-omni 6693: a TPOT of 0 passes an upper bound."""
    verdict = judged("tpot.p95 <= 50ms", cells([(0, 0)] * 60))
    assert verdict.state is State.INCONCLUSIVE
    assert verdict.needs_more == 59


def test_one_error_at_low_traffic_does_not_fail() -> None:
    """pyrra 1925: one error at low traffic pages."""
    assert judged("error_rate <= 1%", spread(20, 1)).state is State.INCONCLUSIVE


def test_failures_are_bad_however_fast() -> None:
    """locust 1363: fast 503s improve the latency statistics; here they rank above every success."""
    fast = histogram([0.05] * 80)
    observed, _, _ = observed_quantile(0.95, 100, fast)
    assert observed is None  # the 95th of 100 is one of the 20 failures
    assert judged("ttft.p95 <= 200ms", spread(100, 20), histogram=fast).state is State.FAIL


def test_shares_are_compared_unrounded() -> None:
    """slo-generator: the figure was rounded before it was compared."""
    verdict = judged("error_rate <= 1%", spread(100_000_000, 1_004_000))  # 1.004 %, shown as 1 %
    assert verdict.state is State.FAIL
    assert "(1 %, 1 % allowed)" in verdict.sentence


def test_a_short_outage_is_seen_in_its_own_segment() -> None:
    """k6 2379: a 10 s outage dilutes to 6 % of the whole run."""
    outage = cells([(20, 20 if 10 <= s < 20 else 0) for s in range(30)])
    assert judged("error_rate <= 5%", outage).state is State.FAIL


@pytest.mark.parametrize(("k", "state"), [(0, State.PASS), (1, State.FAIL)])
def test_a_limit_of_zero_is_about_what_was_seen(k: int, state: State) -> None:
    assert judged("error_rate <= 0%", spread(500, k)).state is state
    assert judged("completeness >= 100%", spread(500, k)).state is state
    assert judged("error_rate <= 0%", Blocks.of([])).state is State.INCONCLUSIVE


def test_a_limit_of_zero_says_what_could_hide() -> None:
    assert "up to 0.597 % could hide" in judged("error_rate <= 0%", spread(500, 0)).sentence


def test_a_limit_that_allows_everything_passes() -> None:
    assert judged("error_rate <= 100%", spread(5, 5)).state is State.PASS


def test_interval_stamps_that_leave_the_verdict_open_make_it_invalid() -> None:
    blocks = Blocks.of((s, Cell(100, 0, 30, 0, 30)) for s in range(60))
    verdict = judged("gap.p95 <= 50ms", blocks)
    assert verdict.state is State.INVALID
    assert (verdict.k_low, verdict.k_high) == (0, 1800)
    assert "cannot tell pass from fail" in verdict.sentence


def test_interval_stamps_that_agree_on_the_verdict_do_no_harm() -> None:
    blocks = Blocks.of((s, Cell(100, 0, int(s == 5), 0, int(s == 5))) for s in range(60))
    assert judged("gap.p95 <= 50ms", blocks).state is State.PASS


def test_two_consecutive_bad_windows_fail_a_segment_that_passes_as_a_whole() -> None:
    pairs = [(50, 9 if 60 <= s < 120 else 0) for s in range(600)]
    segment = Seconds(0.0, 600.0)
    blocks = cells(pairs)
    assert decide(blocks, 0.05, ALPHA).state is State.PASS
    windows = tumbling(blocks, segment, 30.0)
    decision = decide(blocks, 0.05, ALPHA, windows)
    assert decision.state is State.FAIL
    assert decision.failing_windows
    verdict = judged("ttft.p95 <= 200ms", blocks, span=segment, window_s=30.0)
    assert "two consecutive windows fail" in verdict.sentence


def test_one_bad_window_does_not_fail() -> None:
    blocks = cells([(50, 9 if 60 <= s < 90 else 0) for s in range(600)])
    assert decide(blocks, 0.05, ALPHA, tumbling(blocks, Seconds(0.0, 600.0), 30.0)).state is State.PASS


def test_seconds_that_a_boundary_cuts_are_left_out() -> None:
    assert Seconds(1.2, 4.9).whole() == range(2, 4)
    assert len(Seconds(1.2, 1.9).whole()) == 0


def test_windows_are_a_third_of_a_short_segment_and_late_ends_fall_into_the_last() -> None:
    blocks = cells([(1, 0)] * 40)  # ten seconds of requests that ended after the segment
    windows = tumbling(blocks, Seconds(0.0, 30.0), 60.0)
    assert [len(w) for w in windows] == [10, 10, 20]
    assert tumbling(blocks, Seconds(0.0, 9.0), 60.0) == []


def test_the_percentile_shown_is_the_nearest_rank_with_its_interval() -> None:
    observed, low, high = observed_quantile(0.95, 1000, histogram(i / 1000 for i in range(1, 1001)))
    assert observed == pytest.approx(0.950, rel=0.006)
    assert low == pytest.approx(0.937, rel=0.01)
    assert high == pytest.approx(0.964, rel=0.01)
    assert observed_quantile(0.95, 0, None) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "seen"), [("error_rate <= 20%", 0.1), ("completeness >= 80%", 0.9), ("goodput >= 80%", 0.9)]
)
def test_the_interval_of_a_share_surrounds_what_was_seen(text: str, seen: float) -> None:
    verdict = judged(text, spread(400, 40))
    assert verdict.observed == pytest.approx(seen)
    assert verdict.low is not None
    assert verdict.high is not None
    assert seen - 0.05 < verdict.low < seen < verdict.high < seen + 0.05


def test_the_interval_shown_is_that_of_as_many_samples_as_count() -> None:
    times = histogram(i / 1000 for i in range(1, 1001))
    _, low, high = observed_quantile(0.95, 1000, times)
    seen, far_low, far_high = observed_quantile(0.95, 1000, times, effect=4.0)
    assert None not in (low, high, far_low, far_high)
    assert seen == pytest.approx(0.95, rel=0.01)
    assert 1.5 < (seen - far_low) / (seen - low) < 2.5  # type: ignore[operator]
    assert far_high > high  # type: ignore[operator]


def test_relative_limits_lie_either_side_of_the_factor() -> None:
    objective = parse_objective("ttft.p95 <= 1.5x baseline")
    limits = relative_limits(objective, histogram(i / 1000 for i in range(1, 1001)))
    assert limits is not None
    fail_s, pass_s = limits
    assert pass_s < 1.5 * 0.950 < fail_s
    assert fail_s / pass_s < 1.05
    assert relative_limits(objective, histogram([0.1] * 58)) is None
    assert relative_limits(P95, histogram([0.1] * 1000)) is None


def test_baseline_failures_stand_above_its_successes() -> None:
    objective = parse_objective("ttft.p95 <= 1.5x baseline")
    assert relative_limits(objective, histogram([0.1] * 90), failed=10) is None


def test_relative_limit_that_could_not_be_fixed_is_inconclusive() -> None:
    verdict = judged("ttft.p95 <= 1.5x baseline", spread(500, 0))
    assert verdict.state is State.INCONCLUSIVE
    assert "baseline held too few samples" in verdict.sentence


def test_between_the_two_limits_of_a_relative_objective_nothing_is_decided() -> None:
    blocks = Blocks.of((s, Cell(20, 0, 0, 5, 5)) for s in range(60))  # over the lower limit only
    verdict = judged("ttft.p95 <= 1.5x baseline", blocks, limits=(0.3, 0.28))
    assert verdict.state is State.INCONCLUSIVE


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.01, 0.05, 0.5]))
@settings(deadline=None)
def test_more_exceedances_never_improve_a_verdict(n: int, k: int, p0: float) -> None:
    k = min(n, k)
    order = {State.PASS: 0, State.INCONCLUSIVE: 1, State.FAIL: 2}
    one_block = cells([(n, k)])
    worse = cells([(n, min(n, k + 1))])
    assert order[decide(one_block, p0, ALPHA).state] <= order[decide(worse, p0, ALPHA).state]
