"""One schedule for any number of workers."""

from __future__ import annotations

import itertools

import pytest

from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.scenario import LoadPlan
from chaosflow.load.arrivals import (
    indices_of_user,
    open_schedule,
    request_cap,
    share_of_worker,
    users_of_worker,
)
from chaosflow.load.requests import RequestMaker, prompt_of

POISSON = {"kind": "poisson", "rate_per_s": 50}


def plan(arrival: dict[str, object] = POISSON, **fields: object) -> LoadPlan:
    return LoadPlan.model_validate({"arrival": arrival, **fields})


def order(**fields: object) -> LoadOrder:
    plan_fields = {"arrival": POISSON, **fields}
    return LoadOrder.model_validate(
        {
            "run_id": "r",
            "url": "http://example.test:8000/v1",
            "model": "tiny",
            "plan": plan_fields,
            "seed": 3,
            "objectives": [],
            "fault_names": [],
            "records_dir": "/nowhere",
        }
    )


@pytest.mark.parametrize("arrival", [POISSON, {"kind": "constant", "rate_per_s": 8}])
def test_one_worker_and_three_give_the_same_requests(arrival: dict[str, object]) -> None:
    alone = list(itertools.islice(share_of_worker(plan(arrival), 7, 0), 300))
    three = [list(itertools.islice(share_of_worker(plan(arrival, workers=3), 7, w), 100)) for w in range(3)]
    assert sorted(itertools.chain(*three)) == alone


def test_closed_users_give_the_same_requests_on_any_number_of_workers() -> None:
    closed = {"kind": "closed", "users": 5}
    seen = {}
    for workers in (1, 3):
        p = plan(closed, workers=workers, max_requests=23)
        users = [u for w in range(workers) for u in users_of_worker(p.arrival, workers, w)]  # type: ignore[arg-type]
        seen[workers] = sorted(j for u in users for j in indices_of_user(p, u))
    assert seen[1] == seen[3] == list(range(23))


def test_another_seed_is_another_schedule() -> None:
    def first(seed: int) -> list[tuple[int, int]]:
        return list(itertools.islice(open_schedule(plan().arrival, seed), 5))  # type: ignore[arg-type]

    assert first(1) == first(1) != first(2)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() -> None:
    times = [ns / 1e9 for _, ns in itertools.islice(open_schedule(plan().arrival, 1), 20_000)]  # type: ignore[arg-type]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    sd = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert sd == pytest.approx(mean, rel=0.05)


def test_caps_on_requests_and_tokens_hold_over_all_workers() -> None:
    capped = plan(workers=2, max_requests=50, max_tokens=32_000, prompt_tokens=256, output_tokens=64)
    assert request_cap(capped) == 50
    assert request_cap(plan(max_tokens=3200, prompt_tokens=256, output_tokens=64)) == 10
    assert sum(len(list(share_of_worker(capped, 1, w))) for w in range(2)) == 50


def test_the_prompt_depends_on_seed_and_index_alone() -> None:
    assert prompt_of(1, 2, 40) == prompt_of(1, 2, 40)
    assert prompt_of(1, 2, 40) != prompt_of(1, 3, 40)
    assert len(prompt_of(1, 2, 40).split()) == 40


def test_body_and_head_of_a_chat_request() -> None:
    wire = RequestMaker(
        order(
            headers={"x-team": "a", "content-type": "application/json; v=2"}, extra_body={"ignore_eos": True}
        ),
        api_key="sekret",
    ).wire(4)
    head, _, body = wire.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nHost: example.test:8000\r\n")
    assert b"Authorization: Bearer sekret" in head
    assert b"x-team: a" in head
    assert head.lower().count(b"content-type") == 1
    assert b"Content-Length: %d" % len(body) in head
    assert b'"stream":true' in body
    assert b'"ignore_eos":true' in body
    assert b'"include_usage":true' in body
    completions = RequestMaker(order(endpoint="completions")).wire(4)
    assert b"POST /v1/completions" in completions
    assert b'"prompt":"' in completions


def test_a_header_with_a_line_end_is_refused() -> None:
    with pytest.raises(Exception, match="line end"):
        RequestMaker(order(headers={"x": "a\r\nHost: other"}))
