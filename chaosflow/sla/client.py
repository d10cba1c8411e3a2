"""Whether the load generator itself kept up: a verdict about a service needs a sound client."""

from __future__ import annotations

import math

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.histogram import Histogram
from chaosflow.sla.evidence import Evidence
from chaosflow.sla.spans import Seconds, seconds_of, span_of
from chaosflow.sla.words import number, percent, seconds

MIN_BUDGET_S = 0.002
BUDGET_PART = 0.05
"""Of the tightest limit."""
MIN_ACHIEVED = 0.95
MAX_JUMPED = 0.01
"""Share of requests that a step of the wall clock may have touched."""
_FROM_SCHEDULE = ("ttft", "e2e")
"""The metrics that client lag is part of."""


def lag_budget_s(evidence: Evidence, number: int) -> float:
    """max(2 ms, 5 % of the limit), where that limit is of a time that counts from the schedule.

    Lag is no part of a gap, and changes a share only past the requests' deadline: their limit is that.
    """
    objective = evidence.objectives[number]
    limits: tuple[float, ...] = (evidence.deadline_s,)
    if objective.metric in _FROM_SCHEDULE:
        limits = (
            evidence.limits.get(number, (evidence.deadline_s,)) if objective.relative else (objective.limit,)
        )
    return max(MIN_BUDGET_S, BUDGET_PART * min(limits))


def lag_p99_s(histogram: Histogram | None) -> float | None:
    """Nearest-rank P99, but never the one latest of several: a single late request proves nothing."""
    if histogram is None or histogram.total == 0:
        return None
    n = histogram.total
    rank = min(math.ceil(0.99 * n), max(1, n - 1))
    value_ns = histogram.rank_ns(rank)
    return None if value_ns is None else value_ns / NS_PER_S


def late(evidence: Evidence, number: int, segment: str) -> str | None:
    """Why an objective's figures prove nothing in a segment: the client was late with its own requests."""
    budget_s = lag_budget_s(evidence, number)
    lag_s = lag_p99_s(evidence.store.by_segment.get((segment, "client_lag")))
    if lag_s is None or lag_s <= budget_s:
        return None
    return (
        f"the client was late: p99 of its own lag {seconds(lag_s)}, budget {seconds(budget_s)}; "
        "give the load more workers, or this machine less to do"
    )


def broken_run(evidence: Evidence) -> list[str]:
    """Why the whole run proves nothing; empty when the load was carried out as intended."""
    reasons = [f"{w}; start again" for w in evidence.lost_workers]
    reasons += [f"samples were lost or repeated: {text}" for text in evidence.store.faults_seen[:3]]
    if evidence.cap_hits:
        reasons.append(
            f"{number(evidence.cap_hits)} arrivals were not carried out: load.max_in_flight, or a limit of this "
            "machine (files, ports), was reached; raise it, or lower the rate"
        )
    reasons += _achieved(evidence)
    resolved = evidence.store.counts.total("*").resolved
    if evidence.clock_jumps > MAX_JUMPED * resolved and evidence.clock_jumps:
        reasons.append(
            f"the wall clock jumped during {number(evidence.clock_jumps)} of {number(resolved)} requests; "
            "keep NTP from stepping it"
        )
    return reasons


def notes(evidence: Evidence) -> list[str]:
    """What a reader should know of the client though it decides nothing."""
    if evidence.clock_jumps:
        return [
            f"the wall clock jumped during {number(evidence.clock_jumps)} requests (marked in the records)"
        ]
    return []


def judged_seconds(evidence: Evidence) -> Seconds | None:
    """From the baseline's begin to the last instant that every worker has reported."""
    baseline = seconds_of(span_of(evidence.segments, "baseline"), evidence.t0_ns, evidence.ended_ns)
    if baseline is None:
        return None
    ends = [seconds_of(s, evidence.t0_ns, evidence.ended_ns) for s in evidence.segments.spans()]
    end_s = max(s.end_s for s in ends if s is not None)
    if marks := evidence.store.watermarks.values():
        end_s = min(end_s, (min(marks) - evidence.t0_ns) / NS_PER_S)
    return Seconds(baseline.begin_s, end_s)


def _achieved(evidence: Evidence) -> list[str]:
    span = judged_seconds(evidence)
    whole = span.whole() if span is not None else range(0)
    count = evidence.store.counts.between(whole.start, whole.stop, "*")
    fired, intended = count.fired, float(count.scheduled)
    if evidence.rate_per_s is not None and evidence.arrival_kind != "closed":
        # a Poisson schedule may be this far below its rate by chance
        by_rate = evidence.rate_per_s * len(whole)
        intended = max(intended, by_rate - 3 * math.sqrt(by_rate))
    if intended <= 0 or fired >= MIN_ACHIEVED * intended:
        return []
    return [
        f"only {percent(fired / intended)} of the intended load was sent ({number(fired)} of "
        f"{number(round(intended))} requests); give the load more workers, or lower the rate"
    ]
