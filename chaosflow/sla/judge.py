"""From a run's evidence to its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chaosflow.core.slo import Kind, Objective, ObjectiveVerdict, SegmentVerdict, State
from chaosflow.core.slots import Blocks
from chaosflow.sla import client
from chaosflow.sla.budget import BUDGET_KINDS, budget_of, samples_of, sliding_of
from chaosflow.sla.drift import judge_drift
from chaosflow.sla.evidence import Evidence as Evidence
from chaosflow.sla.evidence import FaultFact as FaultFact
from chaosflow.sla.evidence import Judgement as Judgement
from chaosflow.sla.evidence import Recovery as Recovery
from chaosflow.sla.health import judge_health
from chaosflow.sla.quantile import judge_quantile
from chaosflow.sla.recovery import judge_recovery, measure_recoveries
from chaosflow.sla.share import judge_share
from chaosflow.sla.spans import seconds_of, span_of


def judge(evidence: Evidence) -> Judgement:
    """The verdict of a run: the worst of its parts wins, and only an explicit pass passes.

    Changes nothing. A fault that was not confirmed, a lost worker, load that was not sent make the
    run ``invalid``; an abort rule makes it at least ``fail``.
    """
    recoveries, alpha = measure_recoveries(evidence), evidence.alpha()
    verdicts = tuple(
        _judge_objective(evidence, i, recoveries, alpha) for i in range(len(evidence.objectives))
    )
    reasons = _invalid_reasons(evidence)
    states = [v.state for v in verdicts] or [State.INCONCLUSIVE]
    if reasons:
        states.append(State.INVALID)
    if evidence.aborted:
        states.append(State.FAIL)
    state = max(states)
    reason = _reason(evidence, state, verdicts, reasons)
    notes = (*client.notes(evidence), *reasons[1:])
    return Judgement(state, reason, verdicts, recoveries, notes)


def baseline_blocks(evidence: Evidence) -> str | None:
    """Why the run must stop before its first fault ("no steady state"), or None.

    An objective that fails in the baseline blocks, unless it is written ``during baseline``: that one
    is a verdict of its own. Inconclusive does not block.
    """
    alpha = evidence.alpha()
    for i, objective in enumerate(evidence.objectives):
        if objective.during == "baseline" or objective.kind in (Kind.RECOVERY, Kind.HEALTH):
            continue
        if "baseline" not in evidence.segments_of(objective):
            continue
        verdict = _judge_segment(evidence, i, "baseline", evidence.store.blocks("baseline", i), alpha)
        if verdict.state is State.FAIL:
            return f"no steady state: {objective.text} fails in the baseline: {verdict.sentence}"
    return None


def _judge_objective(
    evidence: Evidence,
    number: int,
    recoveries: Mapping[str, Recovery],
    alpha: float,
) -> ObjectiveVerdict:
    objective = evidence.objectives[number]
    parts = []
    for segment in evidence.segments_of(objective):
        if objective.kind is Kind.RECOVERY:
            fault = segment.removesuffix(".recovery")
            parts.append(judge_recovery(objective, recoveries.get(fault) or _never(fault)))
            continue
        part = _judge_segment(evidence, number, segment, evidence.store.blocks(segment, number), alpha)
        if (why := client.late(evidence, number, segment)) is not None:
            part = replace(part, state=State.INVALID, sentence=why)
        parts.append(part)
    verdict = _summed_up(objective, tuple(parts))
    if objective.kind not in BUDGET_KINDS or not parts:
        return verdict
    samples, p0 = samples_of(evidence, number), objective.allowed_share
    return replace(verdict, budget=budget_of(samples, p0), sliding=sliding_of(samples, p0, evidence.window_s))


def _never(fault: str) -> Recovery:
    return Recovery(fault, False, sentence="not measured: the run ended before this fault")


def _judge_segment(
    evidence: Evidence, number: int, segment: str, blocks: Blocks, alpha: float
) -> SegmentVerdict:
    objective = evidence.objectives[number]
    span = seconds_of(span_of(evidence.segments, segment), evidence.t0_ns, evidence.ended_ns)
    if span is None:
        return SegmentVerdict(
            segment,
            State.INCONCLUSIVE,
            "this segment was never reached",
            allowed_share=objective.allowed_share if objective.kind in BUDGET_KINDS else 0.0,
        )
    if objective.kind is Kind.HEALTH:
        return judge_health(objective, segment, evidence, span)
    if objective.kind in (Kind.SHARE, Kind.EVENT_SHARE):
        return judge_share(objective, segment, blocks, alpha=alpha, span=span, window_s=evidence.window_s)
    if objective.kind is Kind.DRIFT:
        base = seconds_of(span_of(evidence.segments, "baseline"), evidence.t0_ns, evidence.ended_ns)
        return judge_drift(
            objective,
            segment,
            evidence.store,
            alpha=alpha,
            span=span,
            baseline=base,
            window_s=evidence.window_s,
            poisson=evidence.arrival_kind == "poisson",
        )
    return judge_quantile(
        objective,
        segment,
        blocks,
        alpha=alpha,
        span=span,
        window_s=evidence.window_s,
        histogram=evidence.store.by_segment.get((segment, objective.metric)),
        limits=evidence.limits.get(number),
    )


def _summed_up(objective: Objective, parts: tuple[SegmentVerdict, ...]) -> ObjectiveVerdict:
    if not parts:
        return ObjectiveVerdict(objective, State.INCONCLUSIVE, "no segment of this run is judged by it")
    worst = max(parts, key=lambda p: (p.state, p.needs_more or 0, _nearness(p)))
    if worst.state is State.PASS and len(parts) > 1:
        all_ = "both" if len(parts) == 2 else f"all {len(parts)}"
        sentence = f"holds in {all_} segments; nearest to its limit in {worst.segment}: {worst.sentence}"
    else:
        same = sum(p.state is worst.state for p in parts) - 1
        more = f" (and {same} more)" if same else ""
        sentence = f"in {worst.segment}{more}: {worst.sentence}"
    return ObjectiveVerdict(objective, worst.state, sentence, parts)


def _nearness(part: SegmentVerdict) -> float:
    """Larger = nearer to its limit, among the segments of one objective."""
    if part.limit and part.observed is not None:
        return abs(part.observed) / part.limit
    return part.k_high / part.n if part.n else 0.0


def _invalid_reasons(evidence: Evidence) -> list[str]:
    """Why the run as a whole proves nothing."""
    reasons = list(evidence.broken)
    cut_short = bool(evidence.aborted or evidence.broken)
    for fault in evidence.faults:
        if not fault.attempted and not cut_short:
            reasons.append(f"fault {fault.name} was never injected")
        elif fault.attempted and not fault.confirmed:
            why = f": {fault.error}" if fault.error else ""
            reasons.append(f"fault {fault.name} was not confirmed, so nothing shows that it acted{why}")
    return reasons + client.broken_run(evidence)


def _reason(
    evidence: Evidence, state: State, verdicts: tuple[ObjectiveVerdict, ...], reasons: list[str]
) -> str:
    if state is State.INVALID and reasons:
        return reasons[0]
    if state is State.FAIL and evidence.aborted:
        return f"aborted: {evidence.aborted}"
    worst = [v for v in verdicts if v.state is state]
    if state is State.PASS:
        return f"all {len(verdicts)} objectives hold" if len(verdicts) > 1 else "the objective holds"
    if not worst:
        return "there is no objective to judge"
    word = {State.FAIL: "is broken", State.INCONCLUSIVE: "is undecided"}.get(state, "could not be judged")
    more = f" (and {len(worst) - 1} more)" if len(worst) > 1 else ""
    return f"{worst[0].objective.text} {word}{more}: {worst[0].sentence}{_broken_besides(state, verdicts)}"


def _broken_besides(state: State, verdicts: tuple[ObjectiveVerdict, ...]) -> str:
    """What a late client in one segment must not hide: objectives that are broken where it was in time."""
    broken = [v.objective.text for v in verdicts if v.state is State.FAIL and state > State.FAIL]
    if not broken:
        return ""
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f". Broken besides: {broken[0]}{more}"
