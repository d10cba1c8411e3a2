"""When requests are wanted, as one absolute schedule that every worker derives from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from chaosflow.core.scenario import ClosedArrival, ConstantArrival, LoadPlan, PoissonArrival

_NS = 1_000_000_000

OpenArrival = PoissonArrival | ConstantArrival


def request_cap(plan: LoadPlan) -> int | None:
    """How many requests the plan allows in all; None = no cap.

    ``max_tokens`` counts prompt and output tokens asked for.
    """
    caps = [] if plan.max_requests is None else [plan.max_requests]
    if plan.max_tokens is not None:
        caps.append(plan.max_tokens // (plan.prompt_tokens + plan.output_tokens))
    return min(caps) if caps else None


def open_schedule(arrival: OpenArrival, seed: int) -> Iterator[tuple[int, int]]:
    """(j, ns since the start of the load) of every arrival, for ever, in order."""
    if arrival.kind == "constant":
        index = 0
        while True:
            yield index, round(index * _NS / arrival.rate_per_s)
            index += 1
    rng = random.Random(f"arrivals:{seed}")
    at_s, index = 0.0, 0
    while True:
        at_s += rng.expovariate(arrival.rate_per_s)
        yield index, round(at_s * _NS)
        index += 1


def share_of_worker(plan: LoadPlan, seed: int, worker: int) -> Iterator[tuple[int, int]]:
    """The arrivals j of ``open_schedule`` that fall to this worker: j mod workers."""
    if isinstance(plan.arrival, ClosedArrival):
        raise ValueError("a closed load has no schedule: its users ask again when they are answered")
    cap = request_cap(plan)
    for index, offset_ns in open_schedule(plan.arrival, seed):
        if cap is not None and index >= cap:
            return
        if index % plan.workers == worker:
            yield index, offset_ns


def users_of_worker(arrival: ClosedArrival, workers: int, worker: int) -> range:
    """The closed users that live on this worker."""
    return range(worker, arrival.users, workers)


def indices_of_user(plan: LoadPlan, user: int) -> Iterator[int]:
    """j of one closed user's first, second, … request: the same for any number of workers."""
    if not isinstance(plan.arrival, ClosedArrival):
        raise ValueError("only a closed load has users")
    cap = request_cap(plan)
    index = user
    while cap is None or index < cap:
        yield index
        index += plan.arrival.users
