"""Stalls, bursts, times per token: which gaps count, and as what. 1 unit = 1 ms."""

from __future__ import annotations

from test_load_fold import Bench, all_bad

from chaosflow.core.sample import Outcome
from chaosflow.core.slots import Cell

STALLS, SHORT_STALLS, BURSTS, ITL, TPOT = range(5)
OBJECTIVES = (
    "stalls <= 1%",
    "stalls.100ms <= 1%",
    "burstiness <= 10%",
    "itl.p99 <= 50ms",
    "tpot.p95 <= 50ms",
)


def bench() -> Bench:
    return Bench(*OBJECTIVES)


def test_a_stall_is_seen_while_it_lasts_and_counted_once() -> None:
    made = bench()
    hanging = made.request(0, [100, 150])
    made.fold(1_200)
    assert made.total(SHORT_STALLS) == Cell(2, 1, 1, 1, 1)
    assert made.total(STALLS) == Cell(2, 1, 1, 1, 1)
    assert made.seconds(STALLS) == [0, 1]
    made.events(hanging, [3_000])
    made.end(hanging, 3_100)
    made.fold(4_000)
    assert made.total(STALLS) == Cell(2, 1, 1, 1, 1)


def test_gaps_under_a_millisecond_are_bursts() -> None:
    made = bench()
    made.request(0, [100, 100.4, 100.8, 140, 180], 200)
    made.fold(1_000)
    assert made.total(BURSTS) == Cell(4, 2, 2, 2, 2)


def test_a_read_of_several_events_leaves_open_whether_they_came_as_a_burst() -> None:
    made = bench()
    made.request(0, [100, 140, 140, 140], 200, lows_ms=[100, 100, 100, 140])
    made.fold(1_000)
    assert made.total(BURSTS) == Cell(3, 0, 3, 0, 3)


def test_events_of_one_segment_are_certainly_a_burst() -> None:
    """Fake streaming: eight tokens in one write."""
    made = bench()
    made.request(0, [100] * 8 + [400] * 8, 500)
    made.fold(1_000)
    assert made.total(BURSTS) == Cell(15, 14, 14, 14, 14)


def test_itl_needs_to_know_that_each_event_was_one_token() -> None:
    made = bench()
    made.request(0, [100, 140, 200], 210, usage=3)
    made.request(0, [100, 140, 200], 210, usage=9)
    made.request(0, [100, 140, 200], 210)
    made.request(0, [100, 140, 200], 210, Outcome.TRUNCATED, usage=3)
    made.fold(1_000)
    assert made.total(ITL) == Cell(2, 1, 1, 1, 1)
    assert made.store.by_segment["baseline", "itl"].total == 2


def test_itl_belongs_to_the_segment_of_its_arrival() -> None:
    made = bench()
    made.fault(1_000, 2_000)
    made.request(900, [950, 990, 1_080], 1_090, usage=3)
    made.fold(3_000)
    assert made.total(ITL, "baseline") == Cell(1)
    assert made.total(ITL, "pause") == all_bad(1)


def test_tpot_of_an_answer_that_came_at_once_is_absent_and_not_zero() -> None:
    """vllm-omni 6693: TPOT 0 or negative passes an upper bound."""
    made = bench()
    made.request(0, [100, 100, 100], 110)
    made.request(0, [100, 120, 140], 150)
    made.fold(1_000)
    assert made.total(TPOT) == Cell(1)
    assert made.store.by_segment["baseline", "tpot"].total == 1


def test_a_relative_tpot_limit_finds_its_baseline() -> None:
    made = Bench("tpot.p95 <= 2x baseline")
    for i in range(5):
        made.request(10 * i, [100, 120, 140], 200)
    made.fold(1_000)
    assert made.store.by_segment["baseline", "tpot"].total == 5
