"""What a planned run will be able to decide: ``chaosflow plan``. Pure; touches nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chaosflow.core.scenario import LoadPlan
from chaosflow.core.slo import Kind, Objective
from chaosflow.core.units import significant
from chaosflow.sla.binomial import smallest_n
from chaosflow.sla.closedloop import least_rate_per_s
from chaosflow.sla.drift import MIN_WINDOWS
from chaosflow.sla.evidence import EXACT_KINDS, recovery_holds
from chaosflow.sla.plan import (
    Pieces,
    assumed_effect,
    bucket_s,
    instants_of,
    length_of,
    planned_n,
)
from chaosflow.sla.power import (
    BROKEN,
    HEALTHY,
    SURE,
    Chances,
    catches_from,
    chances,
    drift_chances,
    drift_from,
    passes_from,
)
from chaosflow.sla.recovery import MIN_BASELINE_BUCKETS, RUN_LENGTH
from chaosflow.sla.spans import window_length_s
from chaosflow.sla.words import seconds


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the chances are computed for."""

    healthy: float = HEALTHY
    """A healthy service exceeds in this part of the allowed share."""
    broken: float = BROKEN
    """A broken one in so many times the allowed share."""
    design_effect: float | None = None
    """So many samples count as one; None: 1 for requests, the streams under way for gaps."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One objective in one segment."""

    objective: str
    segment: str
    length_s: float
    planned: int | None
    """Samples; None for a closed loop of which nothing is known."""
    design_effect: float
    can_pass_from: int | None
    """Samples without any exceedance that pass; None where the kind is not decided by samples."""
    passes_from: int | None = None
    """Samples from which a healthy service passes with 95 %."""
    catches_from: int | None = None
    """Samples from which a broken one fails with 95 %."""
    chances: Chances | None = None
    decidable: str = "unknown"
    """``yes``: both a healthy and a broken service are told with 95 %; ``weak``: it can pass, but not so surely;
    ``no``: it cannot pass; ``unknown``: a closed loop."""
    note: str = ""
    """What would help, or what else to know."""
    at_least: bool = False
    """``planned`` is the least that a closed loop brings where all objectives of the segment are kept."""

    @property
    def needed(self) -> int | None:
        """Samples for ``yes``."""
        if self.passes_from is None or self.catches_from is None:
            return self.can_pass_from
        return max(self.passes_from, self.catches_from)

    def needed_s(self, samples: int | None) -> float | None:
        """How long the segment must be for so many samples, at its planned load."""
        if not samples or not self.planned or not self.length_s:
            return None
        return self.length_s * samples / self.planned


def outlooks(
    objectives: Sequence[Objective],
    segments: Mapping[str, Pieces],
    load: LoadPlan,
    fault_names: frozenset[str],
    *,
    window_s: float = 60.0,
    assumptions: Assumptions | None = None,
) -> list[Outlook]:
    """Every objective in every segment that it is judged in, in order."""
    instants = instants_of(segments)
    held = [
        (o, name)
        for o in objectives
        for name in segments
        if (_recovery_of(o, name) if o.kind is Kind.RECOVERY else o.holds_for(name, fault_names, instants))
    ]
    alpha = 0.05 / max(1, sum(o.kind in EXACT_KINDS for o, _ in held))
    assumed = assumptions or Assumptions()
    rates = {name: least_rate_per_s(load, [o for o, n in held if n == name]) for name in segments}
    return [_outlook(o, name, segments, load, window_s, alpha, assumed, rates[name]) for o, name in held]


def level(rows: Sequence[Outlook], objectives: Sequence[Objective]) -> float:
    """alpha: the chance that one test fails a service that just keeps its objective."""
    exact = {o.text for o in objectives if o.kind in EXACT_KINDS}
    return 0.05 / max(1, sum(row.objective in exact for row in rows))


def _recovery_of(objective: Objective, segment: str) -> bool:
    fault = segment.removesuffix(".recovery")
    return fault != segment and recovery_holds(objective, fault)


def _outlook(
    objective: Objective,
    segment: str,
    segments: Mapping[str, Pieces],
    load: LoadPlan,
    window_s: float,
    alpha: float,
    assumed: Assumptions,
    closed_rate_per_s: float | None,
) -> Outlook:
    if objective.kind is Kind.RECOVERY:
        return _recovery(objective, segment, segments, load)
    pieces = segments[segment]
    length_s = length_of(pieces)
    if objective.kind is Kind.HEALTH:
        note = "judged by the second from the health check and the tokens; no chance can be stated"
        return Outlook(
            objective.text, segment, length_s, round(length_s), 1.0, None, decidable="yes", note=note
        )
    planned = planned_n(objective, pieces, load, closed_rate_per_s)
    if objective.kind is Kind.DRIFT:
        row = _drift(objective, segment, length_s, planned, window_s, alpha, assumed)
    else:
        row = _share(objective, segment, segments, load, planned, alpha, assumed)
    return row if closed_rate_per_s is None else _at_least(row, objective)


def _at_least(row: Outlook, objective: Objective) -> Outlook:
    """Of a closed loop: what the least samples decide is decided; of what they do not, nothing is known."""
    # of a relative limit not even that: nothing is known of the baseline that fixes it
    if row.decidable == "yes" and not objective.relative:
        return replace(row, at_least=True)
    note = row.note and f"if requests take as long as their limits allow: {row.note}"
    return replace(row, at_least=True, decidable="unknown", chances=None, note=note)


def _share(
    objective: Objective,
    segment: str,
    segments: Mapping[str, Pieces],
    load: LoadPlan,
    planned: int | None,
    alpha: float,
    assumed: Assumptions,
) -> Outlook:
    pieces = segments[segment]
    p0, length_s = round(objective.allowed_share, 12), length_of(pieces)
    effect = assumed.design_effect or assumed_effect(objective, pieces, load)
    if not 0 < p0 < 1:
        note = "one exceedance fails, none passes: how few could hide is said by the verdict"
        state = "unknown" if planned is None else "yes" if planned else "no"
        return Outlook(objective.text, segment, length_s, planned, effect, 1, decidable=state, note=note)
    row = Outlook(
        objective.text,
        segment,
        length_s,
        planned,
        effect,
        math.ceil(smallest_n(0, p0)),
        passes_from(p0, alpha, effect=effect, healthy=assumed.healthy),
        catches_from(p0, alpha, effect=effect, broken=assumed.broken),
        None
        if planned is None
        else chances(planned, p0, alpha, effect=effect, healthy=assumed.healthy, broken=assumed.broken),
    )
    return (
        _with_baseline(_with_answer(row), objective, segments, load)
        if objective.relative
        else _with_answer(row)
    )


def _with_baseline(
    row: Outlook, objective: Objective, segments: Mapping[str, Pieces], load: LoadPlan
) -> Outlook:
    """A relative limit is fixed by the baseline's own samples: with too few of them nothing can pass, nor fail."""
    pieces = segments.get("baseline", ())
    planned, needed = planned_n(objective, pieces, load), smallest_n(0, round(objective.allowed_share, 12))
    if planned is None or planned >= needed:
        return row
    base = replace(row, segment="baseline", length_s=length_of(pieces), planned=planned)
    note = f"baseline: {_remedy(base, needed)}, to fix the limit"
    return replace(row, decidable="no", chances=Chances(0.0, 0.0, 1.0, 0.0), note=note)


def _with_answer(row: Outlook) -> Outlook:
    if row.planned is None or row.can_pass_from is None:
        return row
    if row.planned < row.can_pass_from:
        state, wanted = "no", row.needed
    elif row.needed is None or row.planned < row.needed:
        state, wanted = "weak", row.needed
    else:
        return replace(row, decidable="yes")
    return replace(row, decidable=state, note=_remedy(row, wanted))


def _remedy(row: Outlook, wanted: int | None) -> str:
    if wanted is None:
        return "cannot be told with these factors"
    if not row.planned:
        return f"{row.segment} is over in an instant: write it for another segment ('during …')"
    longer = row.needed_s(wanted)
    assert longer is not None
    return f"{seconds(math.ceil(longer))} instead of {seconds(row.length_s)}, or {significant(wanted / row.planned, 2)} times the load"


def _drift(
    objective: Objective,
    segment: str,
    length_s: float,
    planned: int | None,
    window_s: float,
    alpha: float,
    assumed: Assumptions,
) -> Outlook:
    width_s = window_length_s(window_s, length_s)
    windows = max(MIN_WINDOWS, int(length_s / width_s + 1e-9)) if width_s else MIN_WINDOWS
    limit, effect, broken = objective.limit, assumed.design_effect or 1.0, assumed.broken
    if limit <= 0:
        note = "no traffic is so even that a change of 0 % could be shown"
        return Outlook(objective.text, segment, length_s, planned, effect, None, decidable="no", note=note)
    passing = drift_from(lambda c: c.passes >= SURE, limit, alpha, windows, broken=broken)
    catching = drift_from(lambda c: c.miss <= 1 - SURE, limit, alpha, windows, broken=broken)
    row = Outlook(
        objective.text,
        segment,
        length_s,
        planned,
        effect,
        math.ceil(2 * (1.645 / limit) ** 2 * windows * effect),
        None if passing is None else math.ceil(passing * effect),
        None if catching is None else math.ceil(catching * effect),
        None if planned is None else drift_chances(planned / effect, limit, alpha, windows, broken=broken),
    )
    if planned is None:
        return row
    if row.chances is None:
        return replace(row, decidable="no", note=_remedy(row, row.needed))
    return _with_answer(row)


def _recovery(objective: Objective, segment: str, segments: Mapping[str, Pieces], load: LoadPlan) -> Outlook:
    width_s, baseline_s = bucket_s(segments, load), length_of(segments.get("baseline", ()))
    length_s = length_of(segments[segment])
    have, watched = int(baseline_s / width_s), int(length_s / width_s)
    note = f"to within {seconds(width_s)}, against {have} buckets of the baseline"
    state = "yes"
    if have < MIN_BASELINE_BUCKETS:
        state, note = (
            "no",
            f"baseline: {seconds(MIN_BASELINE_BUCKETS * width_s + 1)} instead of {seconds(baseline_s)}",
        )
    elif watched < RUN_LENGTH:
        state, note = "no", f"phases.recovery: at least {seconds(RUN_LENGTH * width_s)}"
    elif length_s < objective.limit + RUN_LENGTH * width_s:
        state = "weak"
        note = f"a recovery as late as the limit cannot be seen: phases.recovery {seconds(objective.limit + RUN_LENGTH * width_s)}"
    return Outlook(objective.text, segment, length_s, watched, 1.0, RUN_LENGTH, decidable=state, note=note)
