"""Before a run: which objective cannot pass with the requests that are planned, and how many it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaosflow.core.scenario import ClosedArrival, LoadPlan
from chaosflow.core.slo import Kind, Objective
from chaosflow.sla.binomial import smallest_n
from chaosflow.sla.drift import MIN_WINDOWS, smallest_limit
from chaosflow.sla.evidence import recovery_holds
from chaosflow.sla.recovery import MIN_BASELINE_BUCKETS, RUN_LENGTH, SAMPLES_PER_BUCKET
from chaosflow.sla.spans import window_length_s
from chaosflow.sla.words import number, percent, quantile_name, seconds


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One objective that cannot pass in one segment as planned."""

    objective: Objective
    segment: str
    planned: int
    needed: int
    text: str
    """What is short, and a remedy."""


def planned_n(objective: Objective, length_s: float, load: LoadPlan) -> int | None:
    """Samples an objective will have in a segment of that length; None where nothing can be said.

    Closed loops depend on the service's speed: no claim.
    """
    if isinstance(load.arrival, ClosedArrival):
        return None
    requests = load.arrival.rate_per_s * length_s
    if load.max_requests is not None:
        requests = min(requests, load.max_requests)
    per_request = max(0, load.output_tokens - 1) if objective.kind is Kind.EVENT_QUANTILE else 1
    return round(requests * per_request)


def shortfalls(
    objectives: Sequence[Objective],
    segments: Mapping[str, float],
    load: LoadPlan,
    fault_names: frozenset[str],
    *,
    window_s: float = 60.0,
) -> list[Shortfall]:
    """Every objective and segment that cannot pass even if nothing exceeds a limit.

    ``segments``: name -> planned length in s (``baseline``, ``jitter``, ``jitter.recovery``, …).
    """
    found = []
    instants = frozenset(segment for segment, length_s in segments.items() if length_s <= 0)
    for objective in objectives:
        if objective.kind is Kind.RECOVERY:
            found += _recovery_shortfalls(objective, segments, load)
            continue
        for segment, length_s in segments.items():
            if objective.holds_for(segment, fault_names, instants):
                short = _shortfall(objective, segment, length_s, load, window_s)
                found += [short] if short else []
        if objective.relative and (short := _baseline_shortfall(objective, segments, load)):
            found.append(short)
    return found


def _shortfall(
    objective: Objective, segment: str, length_s: float, load: LoadPlan, window_s: float
) -> Shortfall | None:
    planned = planned_n(objective, length_s, load)
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
    what = "gaps" if objective.kind is Kind.EVENT_QUANTILE else "requests"
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
    objective: Objective, segments: Mapping[str, float], load: LoadPlan
) -> Shortfall | None:
    length_s = segments.get("baseline", 0.0)
    planned, needed = planned_n(objective, length_s, load), smallest_n(0, round(objective.allowed_share, 12))
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


def _recovery_shortfalls(
    objective: Objective, segments: Mapping[str, float], load: LoadPlan
) -> list[Shortfall]:
    found = []
    baseline_s = segments.get("baseline", 0.0)
    width_s = 1
    if not isinstance(load.arrival, ClosedArrival):
        width_s = max(1, math.ceil(SAMPLES_PER_BUCKET / (load.arrival.rate_per_s * load.output_tokens)))
    have = int(baseline_s / width_s)
    if have < MIN_BASELINE_BUCKETS:
        text = (
            f"{objective.text}: cannot be measured: the baseline has {have} buckets of {width_s} s; "
            f"lengthen it to {seconds(MIN_BASELINE_BUCKETS * width_s + 1)}"
        )
        found.append(Shortfall(objective, "baseline", have, MIN_BASELINE_BUCKETS, text))
    for segment, length_s in segments.items():
        fault = segment.removesuffix(".recovery")
        if fault == segment or not recovery_holds(objective, fault):
            continue
        if length_s < RUN_LENGTH * width_s:
            text = (
                f"{objective.text}: cannot pass in {segment}: {seconds(length_s)} hold fewer than "
                f"{RUN_LENGTH} buckets of {width_s} s; lengthen phases.recovery"
            )
            found.append(Shortfall(objective, segment, int(length_s / width_s), RUN_LENGTH, text))
    return found
