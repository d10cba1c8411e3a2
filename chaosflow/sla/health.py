"""Objectives about the target's own health check: does it tell the truth, and how soon?

A second in which requests were under way and no token came is *still*; a second with a token is *moving*.
The check *lies* while it says ready and the target is still, or not ready and tokens move. One second is the
resolution: a stretch counts the whole seconds that show it, so it is never overstated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.sla.evidence import Evidence
from chaosflow.sla.spans import Seconds
from chaosflow.sla.words import seconds

MAX_AGE_S = 3.0
"""An answer older than that says nothing any more."""


@dataclass(frozen=True, slots=True)
class _Second:
    at_s: int
    moving: bool
    still: bool
    ready: bool | None
    """None = the health check said nothing lately."""

    @property
    def lie(self) -> str:
        if self.ready and self.still:
            return "said ready while no token moved"
        if self.ready is False and self.moving:
            return "said not ready while tokens moved"
        return ""


def judge_health(objective: Objective, segment: str, evidence: Evidence, span: Seconds) -> SegmentVerdict:
    """``health_truth`` or ``time_to_unready`` in one segment."""
    timeline = _timeline(evidence, span)
    known = sum(s.ready is not None for s in timeline)
    if not known:
        why = f"{objective.metric}: the health check was not seen in this segment"
        return SegmentVerdict(segment, State.INCONCLUSIVE, why, limit=objective.limit)
    judged = _truth if objective.metric == "health_truth" else _unready
    state, sentence, observed = judged(objective, timeline)
    return SegmentVerdict(segment, state, sentence, n=known, limit=objective.limit, observed=observed)


def _timeline(evidence: Evidence, span: Seconds) -> list[_Second]:
    whole = span.whole()
    events = evidence.store.counts.series("events", whole.start, whole.stop, "*").tolist()
    found, place, under_way = [], 0, 0
    last: tuple[float, bool] | None = None
    for second, count in zip(whole, events, strict=True):
        while place < len(evidence.readiness) and evidence.readiness[place][0] < second + 1:
            last, place = evidence.readiness[place], place + 1
        under_way = evidence.in_flight.get(second, under_way)
        fresh = last is not None and second + 1 - last[0] <= MAX_AGE_S
        ready = last[1] if last is not None and fresh else None
        found.append(_Second(second, count > 0, count == 0 and under_way > 0, ready))
    return found


def _truth(objective: Objective, timeline: Sequence[_Second]) -> tuple[State, str, float | None]:
    if not any(s.moving or s.still for s in timeline):
        return State.INCONCLUSIVE, "health_truth: nothing was asked of the target in this segment", None
    longest, what = 0, ""
    for lie, stretch in groupby(timeline, key=lambda s: s.lie):
        length = len(list(stretch))
        if lie and length > longest:
            longest, what = length, lie
    state = State.FAIL if longest > objective.limit else State.PASS
    allowed = f"{seconds(objective.limit)} allowed"
    if not longest:
        return state, f"the health check told the truth in every second ({allowed})", 0.0
    return state, f"the health check {what} for {seconds(longest)} ({allowed})", float(longest)


def _unready(objective: Objective, timeline: Sequence[_Second]) -> tuple[State, str, float | None]:
    """How long after the tokens stopped did the check turn? The worst outage counts."""
    worst: float | None = None
    unnoticed = 0
    for still, stretch in groupby(timeline, key=lambda s: s.still):
        outage = list(stretch)
        if not still:
            continue
        turned = next((s.at_s - outage[0].at_s for s in outage if s.ready is False), None)
        if turned is not None:
            worst = max(worst or 0.0, float(turned))
        else:
            unnoticed = max(unnoticed, len(outage))
    allowed = f"{seconds(objective.limit)} allowed"
    if unnoticed > objective.limit:
        return (
            State.FAIL,
            f"no token moved for {seconds(unnoticed)}, and the health check said ready ({allowed})",
            None,
        )
    if worst is None:
        why = f"time_to_unready: tokens never stopped for {seconds(objective.limit)} here, so nothing was to be noticed"
        return State.INCONCLUSIVE, why, None
    state = State.FAIL if worst > objective.limit else State.PASS
    return (
        state,
        f"the health check said not ready {seconds(worst)} after the tokens stopped ({allowed})",
        worst,
    )
