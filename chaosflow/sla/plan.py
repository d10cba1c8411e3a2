"""Before a run: which objective cannot pass with the requests that are planned, and how many it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaosflow.core.scenario import LoadPlan
from chaosflow.core.slo import Kind, Objective
from chaosflow.sla.binomial import smallest_n
from chaosflow.sla.drift import MIN_WINDOWS, smallest_limit
from chaosflow.sla.evidence import recovery_holds
from chaosflow.sla.recovery import MIN_BASELINE_BUCKETS, RUN_LENGTH, SAMPLES_PER_BUCKET
from chaosflow.sla.spans import window_length_s
from chaosflow.sla.words import number, percent, quantile_name, seconds

EVENT_KINDS = (Kind.EVENT_QUANTILE, Kind.EVENT_SHARE)
TYPICAL_GAP_S = 0.05
"""Assumed for the number of streams under way where no limit says less."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One objective that cannot pass in one segment as planned."""

    objective: Objective
    segment: str
    planned: int
    needed: int
    text: str
    """What is short, and a remedy."""


Pieces = Sequence[tuple[float, float]]
"""Where a segment lies: (begin, end) in seconds from the start of the load, once or several times."""


def length_of(pieces: Pieces) -> float:
    """Seconds."""
    return sum(end - begin for begin, end in pieces)


def planned_requests(pieces: Pieces, load: LoadPlan) -> float | None:
    """Arrivals expected in a segment; None for a closed loop, which depends on the service's speed."""
    expected = [load.expected_arrivals(begin, end) for begin, end in pieces]
    return sum(e for e in expected if e is not None) if None not in expected else None


def planned_n(
    objective: Objective, pieces: Pieces, load: LoadPlan, closed_rate_per_s: float | None = None
) -> int | None:
    """Samples an objective will have in a segment; None for a closed loop of which no rate is known."""
    requests = planned_requests(pieces, load)
    if requests is None:
        if closed_rate_per_s is None:
            return None
        requests = closed_rate_per_s * length_of(pieces)
    per_request = max(0, load.output_tokens - 1) if objective.kind in EVENT_KINDS else 1
    return round(requests * per_request)


def assumed_effect(objective: Objective, pieces: Pieces, load: LoadPlan) -> float:
    """1 for requests. For gaps the streams under way, since a slow engine step delays them all at once.

    Their number is rate x output tokens x gap (Little's law); the gap is taken as the limit, at most 50 ms.
    Closed loops have as many as users.
    """
    if objective.kind not in EVENT_KINDS:
        return 1.0
    requests, length_s = planned_requests(pieces, load), length_of(pieces)
    if requests is None:
        return float(max(1, getattr(load.arrival, "users", 1)))
    if not length_s:
        return 1.0
    relative_or_share = objective.relative or objective.kind is Kind.EVENT_SHARE
    gap_s = TYPICAL_GAP_S if relative_or_share else min(objective.limit, TYPICAL_GAP_S)
    return max(1.0, requests / length_s * load.output_tokens * gap_s)


def shortfalls(
    objectives: Sequence[Objective],
    segments: Mapping[str, Pieces],
    load: LoadPlan,
    fault_names: frozenset[str],
    *,
    window_s: float = 60.0,
) -> list[Shortfall]:
    """Every objective and segment that cannot pass even if nothing exceeds a limit.

    ``segments``: name (``baseline``, ``jitter``, ``jitter.recovery``, …) -> where it is planned.
    """
    found = []
    instants = instants_of(segments)
    for objective in objectives:
        if objective.kind is Kind.RECOVERY:
            found += _recovery_shortfalls(objective, segments, load)
            continue
        for segment, pieces in segments.items():
            if objective.kind is not Kind.HEALTH and objective.holds_for(segment, fault_names, instants):
                short = _shortfall(objective, segment, pieces, load, window_s)
                found += [short] if short else []
        if objective.relative and (short := _baseline_shortfall(objective, segments, load)):
            found.append(short)
    return found


def instants_of(segments: Mapping[str, Pieces]) -> frozenset[str]:
    """The segments without a length: faults that are over at once."""
    return frozenset(segment for segment, pieces in segments.items() if length_of(pieces) <= 0)


def _shortfall(
    objective: Objective, segment: str, pieces: Pieces, load: LoadPlan, window_s: float
) -> Shortfall | None:
    planned, length_s = planned_n(objective, pieces, load), length_of(pieces)
    if planned is None:
        return None
    if objective.kind is Kind.DRIFT:
        return _drift_shortfall(objective, segment, length_s, planned, window_s)
    p0 = round(objective.allowed_share, 12)
    needed = smallest_n(0, p0) if 0 < p0 < 1 else 1
    if planned >= needed:
        return None
    return _too_few(objective, segment, length_s, planned, needed, "")


def _too_few(
    objective: Objective, segment: str, length_s: float, planned: int, needed: int, why: str
) -> Shortfall:
    name = quantile_name(objective.q) if objective.q else objective.metric
    what = "gaps" if objective.kind in EVENT_KINDS else "requests"
    remedy = (
        f"lengthen {segment} to {seconds(math.ceil(length_s * needed / planned))} or raise the load"
        if planned
        else f"write it for another segment ('during …'): {segment} is over in an instant"
    )
    text = (
        f"{objective.text}: cannot pass in {segment} with about {number(planned)} {what}; "
        f"{name} needs {number(needed)}{why}: {remedy}"
    )
    return Shortfall(objective, segment, planned, needed, text)


def _baseline_shortfall(
    objective: Objective, segments: Mapping[str, Pieces], load: LoadPlan
) -> Shortfall | None:
    pieces = segments.get("baseline", ())
    length_s = length_of(pieces)
    planned, needed = planned_n(objective, pieces, load), smallest_n(0, round(objective.allowed_share, 12))
    if planned is None or planned >= needed:
        return None
    return _too_few(objective, "baseline", length_s, planned, needed, " to fix the limit")


def _drift_shortfall(
    objective: Objective, segment: str, length_s: float, planned: int, window_s: float
) -> Shortfall | None:
    window = window_length_s(window_s, length_s)
    per_window = planned * window / length_s if length_s else 0.0
    if smallest_limit(per_window) < objective.limit:
        return None
    needed = math.ceil(2 * (1.645 / objective.limit) ** 2) * MIN_WINDOWS if objective.limit else 0
    text = (
        f"{objective.text}: cannot pass in {segment} with about {number(round(per_window))} requests a window; "
        f"{percent(objective.limit)} needs {number(math.ceil(needed / MIN_WINDOWS))}: lengthen it or raise the load"
    )
    return Shortfall(objective, segment, planned, needed, text)


def bucket_s(segments: Mapping[str, Pieces], load: LoadPlan) -> int:
    """The width of a recovery's buckets; 1 where nothing is known of the load."""
    pieces = segments.get("baseline", ())
    requests = planned_requests(pieces, load)
    if not requests:
        return 1
    return max(1, math.ceil(SAMPLES_PER_BUCKET * length_of(pieces) / (requests * load.output_tokens)))


def _recovery_shortfalls(
    objective: Objective, segments: Mapping[str, Pieces], load: LoadPlan
) -> list[Shortfall]:
    found = []
    baseline_s, width_s = length_of(segments.get("baseline", ())), bucket_s(segments, load)
    have = int(baseline_s / width_s)
    if have < MIN_BASELINE_BUCKETS:
        text = (
            f"{objective.text}: cannot be measured: the baseline has {have} buckets of {width_s} s; "
            f"lengthen it to {seconds(MIN_BASELINE_BUCKETS * width_s + 1)}"
        )
        found.append(Shortfall(objective, "baseline", have, MIN_BASELINE_BUCKETS, text))
    for segment, pieces in segments.items():
        fault, length_s = segment.removesuffix(".recovery"), length_of(pieces)
        if fault == segment or not recovery_holds(objective, fault):
            continue
        if length_s < RUN_LENGTH * width_s:
            text = (
                f"{objective.text}: cannot pass in {segment}: {seconds(length_s)} hold fewer than "
                f"{RUN_LENGTH} buckets of {width_s} s; lengthen phases.recovery"
            )
            found.append(Shortfall(objective, segment, int(length_s / width_s), RUN_LENGTH, text))
    return found
