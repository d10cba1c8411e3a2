"""One schedule for any number of workers, of every kind of arrival."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from load_build import POISSON, plan

from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.rate import RateProfile, Stage
from chaosflow.core.tracefile import TraceRow
from chaosflow.load.arrivals import (
    Planned,
    open_schedule,
    request_of_user,
    share_of_worker,
    users_of_worker,
)
from chaosflow.load.requests import RequestMaker
from chaosflow.load.sizes import Cap, Sizes

TRACE = (TraceRow(0.0, 10, 5), TraceRow(0.5, 20, 6), TraceRow(2.0, 30, 7))
KINDS: list[dict[str, Any]] = [
    POISSON,
    {"kind": "constant", "rate_per_s": 8},
    {"kind": "gamma", "rate_per_s": 20, "cv": 3},
    {"kind": "poisson", "rate_per_s": 5, "stages": [{"duration": "4s", "rate_per_s": 80, "ramp": True}]},
    {"kind": "trace", "file": "t", "repeat": True},
]


def first(arrivals: LoadPlan, count: int, seed: int = 7) -> list[Planned]:
    return list(itertools.islice(open_schedule(arrivals, seed, TRACE), count))


def times_s(arrivals: LoadPlan, count: int, seed: int = 7) -> list[float]:
    return [p.at_ns / 1e9 for p in first(arrivals, count, seed)]


def spread(times: list[float]) -> tuple[float, float]:
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    return mean, (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5


@pytest.mark.parametrize(
    ("arrival", "sessions"),
    [(kind, None) for kind in KINDS] + [(kind, {"turns": 3, "think_time": "1s"}) for kind in KINDS[:-1]],
)
def test_one_worker_and_three_give_the_same_requests(
    arrival: dict[str, Any], sessions: dict[str, Any] | None
) -> None:
    alone = list(itertools.islice(share_of_worker(plan(arrival, sessions=sessions), 7, 0, TRACE), 300))
    split = plan(arrival, sessions=sessions, workers=2, remote_workers=1, listen="127.0.0.1")
    three = [list(itertools.islice(share_of_worker(split, 7, w, TRACE), 100)) for w in range(3)]
    assert sorted(itertools.chain(*three), key=lambda p: p.index) == alone
    assert [p.index for p in alone] == list(range(300))
    assert all(a.at_ns <= b.at_ns for a, b in itertools.pairwise(alone))
    assert alone[0].at_ns >= 0


def test_closed_users_give_the_same_requests_on_any_number_of_workers() -> None:
    closed = {"kind": "closed", "users": 5}
    seen = {}
    for workers in (1, 3):
        p = plan(closed, workers=workers)
        users = [u for w in range(workers) for u in users_of_worker(p.arrival, workers, w)]  # type: ignore[arg-type]
        seen[workers] = sorted(request_of_user(p, u, k).index for u in users for k in range(4))
    assert seen[1] == seen[3] == list(range(20))


def test_another_seed_is_another_schedule() -> None:
    assert first(plan(), 5, 1) == first(plan(), 5, 1) != first(plan(), 5, 2)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() -> None:
    mean, sd = spread(times_s(plan(), 20_000))
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert sd == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_gamma_arrivals_have_the_rate_and_the_burstiness_asked_for(cv: float) -> None:
    mean, sd = spread(times_s(plan({"kind": "gamma", "rate_per_s": 50, "cv": cv}), 30_000))
    assert mean == pytest.approx(1 / 50, rel=0.06)
    assert sd / mean == pytest.approx(cv, rel=0.06)


def test_a_constant_rate_does_not_drift() -> None:
    assert times_s(plan({"kind": "constant", "rate_per_s": 3}), 30_001)[-1] == 10_000


def test_ramps_and_steps_have_their_rate_at_every_moment() -> None:
    stages = [
        {"duration": "10s", "rate_per_s": 100, "ramp": True},
        {"duration": "10s", "rate_per_s": 40},
        {"duration": "5s", "rate_per_s": 0},
        {"duration": "10s", "rate_per_s": 20},
    ]
    times = times_s(plan({"kind": "constant", "rate_per_s": 20, "stages": stages}), 1300)

    def between(begin: float, end: float) -> int:
        return sum(begin <= t < end for t in times)

    assert between(0, 1) == pytest.approx(24, abs=1)  # the rate goes from 20 to 28
    assert between(9, 10) == pytest.approx(96, abs=1)
    assert between(0, 10) == pytest.approx(600, abs=1)
    assert between(10, 20) == pytest.approx(400, abs=1)
    assert between(20.1, 25) == 0
    assert between(25, 35) == pytest.approx(200, abs=1)


def test_a_rate_that_ends_at_zero_ends_the_schedule() -> None:
    stages = [{"duration": "2s", "rate_per_s": 10}, {"duration": "1s", "rate_per_s": 0}]
    times = times_s(plan({"kind": "constant", "rate_per_s": 10, "stages": stages}), 100)
    assert len(times) == 20


def test_the_inverse_of_a_ramp_is_exact() -> None:
    profile = RateProfile(10, [Stage(duration=4, rate_per_s=0, ramp=True), Stage(duration=2, rate_per_s=8)])
    assert profile.when(-5) == -0.5
    assert profile.when(0) == 0
    assert profile.when(15) == pytest.approx(2)  # 10 t - 1.25 t²
    assert profile.when(20) == pytest.approx(4, abs=1e-6)
    assert profile.when(28) == pytest.approx(5)


def test_a_trace_is_replayed_at_its_times_faster_and_again() -> None:
    once = first(plan({"kind": "trace", "file": "t", "speed": 2}), 99)
    assert [(p.at_ns / 1e9, p.row) for p in once] == [(0, 0), (0.25, 1), (1.0, 2)]
    again = first(plan({"kind": "trace", "file": "t", "repeat": True}), 7)
    assert [p.row for p in again] == [0, 1, 2, 0, 1, 2, 0]
    assert again[3].at_ns > again[2].at_ns


def test_sessions_keep_the_rate_from_the_first_second_and_their_turns_in_order() -> None:
    sessions = plan(POISSON, sessions={"turns": 5, "think_time": "4s"})
    schedule = first(sessions, 3000)
    assert sum(p.at_ns < 10e9 for p in schedule) == pytest.approx(500, rel=0.25)
    assert schedule[-1].at_ns / 1e9 == pytest.approx(60, rel=0.15)
    by_session: dict[int, list[Planned]] = {}
    for planned in schedule:
        by_session.setdefault(planned.session, []).append(planned)
    for turns in by_session.values():
        assert [p.turn for p in turns] == list(range(turns[0].turn, turns[0].turn + len(turns)))
        for before, after in itertools.pairwise(turns):
            assert 2e9 <= after.at_ns - before.at_ns <= 6e9
    assert any(turns[0].turn for turns in by_session.values()), "some began before the load"


def test_closed_sessions_follow_each_other() -> None:
    p = plan({"kind": "closed", "users": 2}, sessions={"turns": 3})
    assert [(r.session, r.turn) for r in (request_of_user(p, 1, k) for k in range(5))] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (3, 0),
        (3, 1),
    ]


def test_caps_on_requests_and_tokens() -> None:
    def cap(**fields: Any) -> int:
        p = plan(**fields)
        bound = Cap(p, 1, Sizes(p, 1, (), None))
        return next(j for j in range(5000) if j == 4999 or not bound.allows(j))

    assert cap() == 4999
    assert cap(max_tokens=10**15, prompt_tokens={"kind": "uniform", "min": 1, "max": 9}) == 4999
    assert cap(max_requests=50, max_tokens=32_000, prompt_tokens=256, output_tokens=64) == 50
    assert cap(max_tokens=3200, prompt_tokens=256, output_tokens=64) == 10
    spread_out = {"kind": "uniform", "min": 1, "max": 99}
    drawn = cap(max_tokens=100_000, prompt_tokens=spread_out, output_tokens=50)
    assert drawn == pytest.approx(1000, rel=0.1)
    assert cap(max_tokens=100_000, prompt_tokens=spread_out, output_tokens=50, workers=3) == drawn
    in_sessions = plan(
        {"kind": "closed", "users": 1}, sessions={"turns": 2}, prompt_tokens=10, output_tokens=10
    )
    sizes = Sizes(in_sessions, 1, (), None)
    assert [sizes.tokens(request_of_user(in_sessions, 0, k)) for k in range(3)] == [20, 40, 20]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"workers": 0}, "nobody would send"),
        ({"remote_workers": 1}, "needs 'listen'"),
        ({"prompts_file": "p", "sessions": {"turns": 2}}, "only one of"),
        ({"locustfile": "l.py"}, "closed"),
        ({"aborts": {"share": "5%", "after": "1s", "after_tokens": 3}}, "only one of"),
        ({"output_tokens": {"kind": "normal", "mean": 5, "sd": 1, "min": 9}}, "not between"),
        ({"aborts": {"share": "5"}}, "not a share"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan(**fields)


def test_the_order_travels_as_it_was_written() -> None:
    from load_build import order

    given = order(output_tokens={"kind": "normal", "mean": 5, "sd": 1}, prompt_tokens=9)
    again = type(given).model_validate_json(given.model_dump_json())
    assert again == given
    assert (again.plan.prompt_tokens, again.plan.output_tokens) == (9, 5)
    assert RequestMaker(again).cap.allows(10**9)
