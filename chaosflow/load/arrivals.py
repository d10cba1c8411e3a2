"""When requests are wanted, as one absolute schedule that every worker derives from the seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass

from chaosflow.core.arrival import ClosedArrival, GammaArrival, PoissonArrival, TraceArrival
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.rate import RateProfile
from chaosflow.core.tracefile import TraceRow, period_s

_NS = 1_000_000_000
_LONGEST_THINK = 1.5


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of the schedule."""

    index: int
    """j: its content depends on the seed and on j alone."""
    at_ns: int = 0
    """Since the start of the load; a closed load's requests follow each other instead."""
    session: int = -1
    turn: int = 0
    """The conversation that it belongs to, and which of its turns it is."""
    row: int = -1
    """The row of the trace."""


def open_schedule(plan: LoadPlan, seed: int, trace: tuple[TraceRow, ...] = ()) -> Iterator[Planned]:
    """Every arrival in order; for ever, unless a trace or the rate comes to its end."""
    if isinstance(plan.arrival, ClosedArrival):
        raise ValueError("a closed load has no schedule: its users ask again when they are answered")
    if isinstance(plan.arrival, TraceArrival):
        yield from _replay(plan.arrival, trace)
    elif plan.sessions is None:
        for index, at_s in enumerate(_times(plan, seed, 1, 0.0)):
            yield Planned(index, round(at_s * _NS))
    else:
        for index, (at_ns, session, turn) in enumerate(_turns(plan, seed)):
            yield Planned(index, at_ns, session, turn)


def _replay(arrival: TraceArrival, trace: tuple[TraceRow, ...]) -> Iterator[Planned]:
    between_s = period_s(trace)
    passes = 0
    while arrival.repeat or not passes:
        for number, row in enumerate(trace):
            at_s = (passes * between_s + row.at_s) / arrival.speed
            yield Planned(passes * len(trace) + number, round(at_s * _NS), row=number)
        passes += 1


def _times(plan: LoadPlan, seed: int, size: int, before_s: float) -> Iterator[float]:
    """Arrivals at ``1 / size`` of the rate, the first ones ``before_s`` ahead of the start."""
    arrival = plan.arrival
    assert not isinstance(arrival, ClosedArrival | TraceArrival)
    profile = RateProfile(arrival.rate_per_s, arrival.stages)
    begin = -float(-(-before_s * arrival.rate_per_s // size)) if before_s else 0.0
    for unit in _unit_process(arrival, seed, begin):
        at_s = profile.when(unit * size)
        if at_s is None:
            return
        yield at_s


def _unit_process(arrival: object, seed: int, begin: float) -> Iterator[float]:
    """Arrivals of rate 1."""
    rng = random.Random(f"arrivals:{seed}")
    at = begin
    if isinstance(arrival, PoissonArrival):
        while True:
            at += rng.expovariate(1.0)
            yield at
    if isinstance(arrival, GammaArrival):
        variance = arrival.cv**2
        # the first gap is one that the start falls into: without that, bursts would crowd the first seconds
        at += rng.random() * rng.gammavariate(1 / variance + 1, variance)
        while True:
            yield at
            at += rng.gammavariate(1 / variance, variance)
    index = 0
    while True:  # constant; counted, not summed up: no rounding creeps in
        yield begin + index
        index += 1


def _turns(plan: LoadPlan, seed: int) -> Iterator[tuple[int, int, int]]:
    """(ns, session, turn) in order. Sessions that began before the load are joined in their midst, so that the
    rate is the planned one from the first second on."""
    assert plan.sessions is not None
    turns, think_s = plan.sessions.turns, plan.sessions.think_time
    longest_s = _LONGEST_THINK * think_s * (turns - 1)
    due: list[tuple[int, int, int]] = []
    for session, start_s in enumerate(_times(plan, seed, turns, longest_s)):
        while due and due[0][0] <= start_s * _NS:
            yield heapq.heappop(due)
        rng = random.Random(f"turns:{seed}:{session}")
        at_s = start_s
        for turn in range(turns):
            if at_s >= 0:
                heapq.heappush(due, (round(at_s * _NS), session, turn))
            at_s += think_s * rng.uniform(2 - _LONGEST_THINK, _LONGEST_THINK)
    while due:
        yield heapq.heappop(due)


def share_of_worker(
    plan: LoadPlan, seed: int, worker: int, trace: tuple[TraceRow, ...] = ()
) -> Iterator[Planned]:
    """The arrivals j of ``open_schedule`` that fall to this worker: j mod workers."""
    for planned in open_schedule(plan, seed, trace):
        if planned.index % plan.all_workers == worker:
            yield planned


def users_of_worker(arrival: ClosedArrival, workers: int, worker: int) -> range:
    """The closed users that live on this worker."""
    return range(worker, arrival.users, workers)


def request_of_user(plan: LoadPlan, user: int, number: int) -> Planned:
    """One closed user's request ``number`` (from 0): the same for any number of workers."""
    if not isinstance(plan.arrival, ClosedArrival):
        raise ValueError("only a closed load has users")
    users = plan.arrival.users
    if plan.sessions is None:
        return Planned(user + number * users)
    session, turn = divmod(number, plan.sessions.turns)
    return Planned(user + number * users, session=user + session * users, turn=turn)


def closed_schedule(plan: LoadPlan) -> Iterator[Planned]:
    """Every request of a closed load, by j."""
    assert isinstance(plan.arrival, ClosedArrival)
    number = 0
    while True:
        for user in range(plan.arrival.users):
            yield request_of_user(plan, user, number)
        number += 1
