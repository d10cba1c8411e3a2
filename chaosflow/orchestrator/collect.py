"""From everything a run left in memory to one RunResult."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from chaosflow.core.budget import Alarm, Budget
from chaosflow.core.clock import NS_PER_S
from chaosflow.core.histogram import Histogram
from chaosflow.core.probe import Reading
from chaosflow.core.result import (
    AlarmResult,
    BudgetResult,
    BurnRateResult,
    ClientHealth,
    FaultResult,
    ObjectiveResult,
    ProbeSeries,
    Quantiles,
    RecoveryCurve,
    RecoveryResult,
    SegmentResult,
    SegmentVerdictResult,
    SlidingResult,
    WorstRequest,
)
from chaosflow.core.segments import SegmentMap, Span
from chaosflow.core.slo import ObjectiveVerdict
from chaosflow.core.slots import CellStore, Count
from chaosflow.core.worst import MOST_WORST, BadRequest
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.sla.evidence import Recovery


class Axis:
    """Monotonic ns -> seconds from the beginning of the baseline."""

    def __init__(self, baseline_begin_ns: int) -> None:
        self._origin_ns = baseline_begin_ns

    def s(self, at_ns: int) -> float:
        return round((at_ns - self._origin_ns) / NS_PER_S, 4)

    def maybe_s(self, at_ns: int | None) -> float | None:
        return None if at_ns is None else self.s(at_ns)


def objective_results(
    verdicts: Iterable[ObjectiveVerdict], store_zero_s: float = 0.0
) -> list[ObjectiveResult]:
    """``store_zero_s``: second 0 of the cell store, on the result's axis."""
    return [
        ObjectiveResult(
            text=v.objective.text,
            metric=v.objective.metric,
            kind=v.objective.kind.value,
            state=v.state.word,
            sentence=v.sentence,
            segments=[SegmentVerdictResult(**{**asdict(s), "state": s.state.word}) for s in v.segments],
            budget=None if v.budget is None else _budget_result(v.budget, store_zero_s),
            sliding=None
            if v.sliding is None
            else SlidingResult(
                window_s=v.sliding.window_s, alarms=_alarm_results(v.sliding.alarms, store_zero_s)
            ),
        )
        for v in verdicts
    ]


def _budget_result(budget: Budget, shift_s: float) -> BudgetResult:
    return BudgetResult(
        allowed_share=budget.allowed_share,
        n=budget.n,
        bad=budget.bad,
        spent=budget.spent,
        period_s=budget.period_s,
        burn=[
            BurnRateResult(
                factor=b.factor,
                long_s=b.long_s,
                short_s=b.short_s,
                budget_part=b.budget_part,
                peak=b.peak,
                peak_at_s=None if b.peak_at_s is None else round(b.peak_at_s + shift_s, 4),
                alarms=_alarm_results(b.alarms, shift_s),
            )
            for b in budget.burn
        ],
    )


def _alarm_results(alarms: Iterable[Alarm], shift_s: float) -> list[AlarmResult]:
    return [
        AlarmResult(
            begin_s=round(a.begin_s + shift_s, 4), end_s=round(a.end_s + shift_s, 4), peak=a.peak, n=a.n
        )
        for a in alarms
    ]


def segment_results(
    store: CellStore, segments: SegmentMap, axis: Axis, load_begin_ns: int, end_ns: int
) -> list[SegmentResult]:
    """One row per segment that was reached, the warm-up first; edges only where a request fell into one."""
    baseline_begin_ns = segments.baseline_begin if segments.baseline_begin is not None else end_ns
    spans = [Span("warmup", "warmup", load_begin_ns, baseline_begin_ns)]
    spans += [
        s
        for s in segments.spans()
        if s.begin_ns <= end_ns and (s.kind != "edge" or store.counts.total(s.name).resolved)
    ]
    return [_segment_result(store, span, store.counts.total(span.name), axis, end_ns) for span in spans]


def _segment_result(store: CellStore, span: Span, count: Count, axis: Axis, run_end_ns: int) -> SegmentResult:
    end_ns = min(run_end_ns, span.end_ns if span.end_ns is not None else run_end_ns)
    length_s = max(1e-9, (end_ns - span.begin_ns) / NS_PER_S)
    lag = store.by_segment.get((span.name, "client_lag"))
    return SegmentResult(
        name=span.name,
        kind=span.kind,
        fault=span.fault,
        begin_s=axis.s(span.begin_ns),
        end_s=axis.s(end_ns),
        scheduled=count.scheduled,
        fired=count.fired,
        resolved=count.resolved,
        failed=count.failed,
        complete=count.complete,
        outcomes={outcome: n for (name, outcome), n in store.outcomes.items() if name == span.name},
        tokens=count.tokens,
        tokens_per_s=round(count.tokens / length_s, 2) if length_s > 0.5 else 0.0,
        requests_per_s=round(count.resolved / length_s, 2) if length_s > 0.5 else 0.0,
        ttft=_quantiles(store.by_segment.get((span.name, "ttft"))),
        gap=_quantiles(store.by_segment.get((span.name, "gap"))),
        e2e=_quantiles(store.by_segment.get((span.name, "e2e"))),
        client_lag_p99_ms=_ms(lag.quantile_ns(0.99)) if lag else None,
        interval_share=round(count.interval_events / count.events, 5) if count.events else 0.0,
    )


def _quantiles(histogram: Histogram | None) -> Quantiles:
    if histogram is None or not histogram.total:
        return Quantiles()
    return Quantiles(
        n=histogram.total,
        p50_ms=_ms(histogram.quantile_ns(0.5)),
        p95_ms=_ms(histogram.quantile_ns(0.95)),
        p99_ms=_ms(histogram.quantile_ns(0.99)),
        max_ms=_ms(histogram.quantile_ns(1.0)),
    )


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else round(value_ns / 1e6, 3)


def fault_results(
    records: Iterable[FaultRecord],
    recoveries: Mapping[str, Recovery],
    axis: Axis,
    curves: Mapping[str, RecoveryCurve] = MappingProxyType({}),
) -> list[FaultResult]:
    return [
        FaultResult(
            name=r.name,
            kind=r.atom.kind,
            params=r.atom.model_dump(mode="json", exclude_none=True),
            rung=r.capability.rung,
            simulated=r.capability.simulated,
            reversible=r.atom.reversible,
            planned_inject_s=axis.s(r.planned_inject_ns),
            planned_revert_s=axis.maybe_s(r.planned_revert_ns),
            inject_begin_s=axis.maybe_s(r.inject_begin_ns),
            inject_ack_s=axis.maybe_s(r.inject_ack_ns),
            revert_begin_s=axis.maybe_s(r.revert_begin_ns),
            revert_ack_s=axis.maybe_s(r.revert_ack_ns),
            confirmed=r.confirmed,
            evidence=r.evidence,
            reverted=r.reverted,
            revert_evidence=r.revert_evidence,
            manual_undo=r.undo.manual if r.undo else "",
            error=r.error,
            recovery=_recovery_result(recoveries.get(r.name), curves.get(r.name)),
        )
        for r in records
    ]


def _recovery_result(recovery: Recovery | None, curve: RecoveryCurve | None) -> RecoveryResult | None:
    if recovery is None:
        return None
    data = asdict(recovery)
    data.pop("fault")
    return RecoveryResult(curve=curve, **data)


def client_health(
    store: CellStore, health: Mapping[str, Mapping[str, float]], lost: Iterable[str]
) -> ClientHealth:
    """The load generator's own state, all workers together."""
    total, lag = store.counts.total("*"), Histogram()
    for (segment, metric), histogram in store.by_segment.items():
        if metric == "client_lag" and segment != "warmup":
            lag.merge(histogram)
    lag_ms = _ms(lag.quantile_ns(0.99))
    share = total.interval_events / total.events if total.events else 0.0
    losses = [*lost, *store.faults_seen]
    sentence = (
        f"client lag P99 {lag_ms:.2f} ms; {share:.1%} of token arrivals known only as an interval"
        if lag_ms is not None
        else "no request was sent"
    )
    return ClientHealth(
        workers=len(health),
        client_lag_p99_ms=lag_ms,
        interval_share=round(share, 5),
        user_stamps=int(sum(h.get("user_stamps", 0) for h in health.values())),
        clock_jumps=int(sum(h.get("clock_jumps", 0) for h in health.values())),
        cap_hits=int(sum(h.get("cap_hits", 0) for h in health.values())),
        lost_batches=losses,
        rss_bytes_max=int(max((h.get("rss_bytes", 0) for h in health.values()), default=0)),
        sentence=sentence + (f"; {'; '.join(losses)}" if losses else ""),
    )


def probe_results(readings: Mapping[str, list[Reading]], axis: Axis) -> dict[str, ProbeSeries]:
    return {
        name: ProbeSeries(
            t_s=[axis.s(r.at_ns) for r in series], value=[float(f"{r.value:.6g}") for r in series]
        )
        for name, series in sorted(readings.items())
    }


def worst_results(worst: Sequence[BadRequest], store_zero_s: float) -> list[WorstRequest]:
    """At most ten: up to five that failed, the rest the slowest of the others; each group worst first."""
    failed = [r for r in worst if r.failed]
    slow = [r for r in worst if not r.failed]
    some = failed[: max(MOST_WORST // 2, MOST_WORST - len(slow))]
    return [_worst_result(r, store_zero_s) for r in [*some, *slow[: MOST_WORST - len(some)]]]


def _worst_result(request: BadRequest, store_zero_s: float) -> WorstRequest:
    def ms(value_us: int | None) -> float | None:
        return None if value_us is None else value_us / 1e3

    return WorstRequest(
        j=request.index,
        sched_s=round(request.sched_us / 1e6 + store_zero_s, 4),
        segment=request.segment,
        outcome=request.outcome,
        status=request.status,
        error=request.error,
        tokens=request.tokens,
        fired_ms=ms(request.fire_us),
        headers_ms=ms(request.headers_us),
        ttft_ms=ms(request.event_us[0]) if request.event_us else None,
        e2e_ms=ms(request.end_us),
        max_gap_ms=ms(request.max_gap_us),
        events_ms=[t / 1e3 for t in request.event_us],
    )
