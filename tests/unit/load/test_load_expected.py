"""How many requests a plan will send, known beforehand: the mean of what the schedule really draws."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from load_build import plan

from chaosflow.core.arrival import TraceArrival
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.rate import RateProfile, Stage
from chaosflow.core.tracefile import read_trace
from chaosflow.load.arrivals import open_schedule

STAGES = [
    {"duration": "5s", "rate_per_s": 60, "ramp": True},
    {"duration": "5s", "rate_per_s": 0},
    {"duration": "5s", "rate_per_s": 10},
]
SPANS = [(0, 3), (3, 7), (5, 10), (7, 12), (12, 30)]


def drawn(load: LoadPlan, begin_s: float, end_s: float, seeds: int) -> float:
    trace = read_trace(load.arrival.file) if isinstance(load.arrival, TraceArrival) else ()
    count = 0
    for seed in range(seeds):
        arrivals = itertools.takewhile(lambda p: p.at_ns < end_s * 1e9, open_schedule(load, seed, trace))
        if load.max_requests is not None:
            arrivals = itertools.islice(arrivals, load.max_requests)  # type: ignore[assignment]
        count += sum(p.at_ns >= begin_s * 1e9 for p in arrivals)
    return count / seeds


@pytest.mark.parametrize(
    "fields",
    [
        {"arrival": {"kind": "poisson", "rate_per_s": 20}},
        {"arrival": {"kind": "gamma", "rate_per_s": 20, "cv": 3}},
        {"arrival": {"kind": "poisson", "rate_per_s": 20, "stages": STAGES}},
        {"arrival": {"kind": "poisson", "rate_per_s": 20, "stages": STAGES}, "max_requests": 150},
        {"arrival": {"kind": "poisson", "rate_per_s": 20}, "sessions": {"turns": 4, "think_time": "2s"}},
        {
            "arrival": {"kind": "poisson", "rate_per_s": 20, "stages": STAGES},
            "sessions": {"turns": 4, "think_time": "1s"},
        },
    ],
)
def test_the_expected_number_is_the_mean_of_what_is_drawn(fields: dict[str, Any]) -> None:
    load = plan(**fields)
    for begin_s, end_s in SPANS:
        expected = load.expected_arrivals(begin_s, end_s)
        assert expected == pytest.approx(drawn(load, begin_s, end_s, 40), rel=0.12, abs=4), (begin_s, end_s)


def test_constant_arrivals_are_counted_to_within_one() -> None:
    load = plan({"kind": "constant", "rate_per_s": 7, "stages": STAGES})
    for begin_s, end_s in SPANS:
        assert load.expected_arrivals(begin_s, end_s) == pytest.approx(drawn(load, begin_s, end_s, 1), abs=1)


def test_a_burst_does_not_stand_at_the_start_of_every_gamma_load() -> None:
    bursty = plan({"kind": "gamma", "rate_per_s": 20, "cv": 5})
    assert drawn(bursty, 0, 1, 400) == pytest.approx(20, rel=0.3)


@pytest.mark.parametrize("repeat", [False, True])
def test_a_trace_is_counted_row_by_row(tmp_path: Path, repeat: bool) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [(0, 10, 5), (500, 20, 6), (2000, 900, 7)]
    path.write_text(
        "".join(f'{{"timestamp": {t}, "input_length": {i}, "output_length": {o}}}\n' for t, i, o in rows)
    )
    arrival = {"kind": "trace", "file": str(path), "speed": 0.5, "repeat": repeat, "max_prompt_tokens": 30}
    load = plan(arrival, max_requests=11)
    for begin_s, end_s in [(0, 0.5), (0, 1), (0, 1.01), (1, 4.01), (3, 9), (9, 60)]:
        assert load.expected_arrivals(begin_s, end_s) == drawn(load, begin_s, end_s, 1), (begin_s, end_s)
    assert (load.prompt_tokens, load.output_tokens) == (20, 6)


def test_a_closed_loop_says_nothing_and_an_empty_span_holds_nothing() -> None:
    assert plan({"kind": "closed", "users": 4}).expected_arrivals(0, 10) is None
    assert plan().expected_arrivals(-5, 0) == plan().expected_arrivals(9, 9) == 0
    assert plan(max_requests=100).expected_arrivals(3, 60) == 0


def test_wanted_is_the_inverse_of_when() -> None:
    profile = RateProfile(10, [Stage(duration=4, rate_per_s=0, ramp=True), Stage(duration=2, rate_per_s=8)])
    for count in (-3.0, 0.5, 15.0, 19.0, 28.0, 100.0):
        at_s = profile.when(count)
        assert at_s is not None
        assert profile.wanted(at_s) == pytest.approx(count)


def test_the_tokens_of_a_request_count_prefix_and_earlier_turns() -> None:
    load = plan(prompt_tokens=30, output_tokens=10, shared_prefix_tokens=100, sessions={"turns": 3})
    assert load.tokens_per_request == 100 + 40 * 2
