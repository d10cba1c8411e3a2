"""How many requests a closed loop brings at least, told before the run from what the objectives allow.

A closed loop sends the next request when the last has ended, so its rate is the service's. But a service that keeps
its limits cannot be slower than they are: users / (think time + the longest that a request may take). A service
that is slower brings fewer samples, and fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaosflow.core.arrival import ClosedArrival
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.slo import Objective


def least_rate_per_s(load: LoadPlan, objectives: Iterable[Objective]) -> float | None:
    """Requests a second where all of ``objectives`` are kept.

    None for open loops (their rate is planned), for a locustfile's users, and where no limit bounds a whole request:
    e2e, or ttft and gap together.
    """
    if not isinstance(load.arrival, ClosedArrival) or load.locustfile:
        return None
    limits: dict[str, float] = {}
    for o in objectives:
        if o.metric in ("e2e", "ttft", "gap") and not o.relative:
            limits[o.metric] = min(o.limit, limits.get(o.metric, o.limit))
    longest_s = limits.get("e2e")
    if longest_s is None and "ttft" in limits and "gap" in limits:
        longest_s = limits["ttft"] + limits["gap"] * max(0, load.output_tokens - 1)
    return None if longest_s is None else load.arrival.users / (load.arrival.think_time + longest_s)
