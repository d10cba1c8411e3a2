"""How fast the service comes back after a fault, from the client's tokens and not from readiness.

From the acknowledged revert (from the injection where nothing can be reverted) to the start of the
first run of 3 consecutive good buckets. A bucket is good when no more requests fail in it than in any
baseline bucket, its tokens reach the baseline buckets' minimum, and its median ttft and gap do not
exceed their maximum (a ttft of fewer than 50 requests by half). Not reached is censored, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median_low

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.core.slots import CellStore, Count
from chaosflow.sla.evidence import Evidence, FaultFact, Recovery
from chaosflow.sla.spans import Seconds, seconds_of, span_of
from chaosflow.sla.words import number, seconds

RUN_LENGTH = 3
"""Consecutive good buckets that count as recovered."""
MIN_BASELINE_BUCKETS = 20
SAMPLES_PER_BUCKET = 50
FEW_SAMPLES_MARGIN = 1.5
"""How far the median ttft of fewer than 50 requests may exceed the baseline's largest."""
_MEDIANS = ("ttft", "gap")


@dataclass(frozen=True, slots=True)
class Bucket:
    begin_s: int
    tokens: int
    failed: int
    requests: int
    medians: dict[str, float]
    """Metric -> median in s; absent without samples."""


@dataclass(frozen=True, slots=True)
class Normal:
    """What the baseline's buckets looked like at their worst."""

    width_s: int
    buckets: int
    min_tokens: int
    max_failed: int
    max_median_s: dict[str, float]

    def good(self, bucket: Bucket) -> bool:
        return (
            bucket.failed <= self.max_failed
            and bucket.tokens >= max(1, self.min_tokens)
            and all(v <= self._most(m, bucket) for m, v in bucket.medians.items())
        )

    def _most(self, metric: str, bucket: Bucket) -> float:
        """The median of a few requests is above the largest of twenty such medians every twentieth time."""
        few = metric == "ttft" and bucket.requests < SAMPLES_PER_BUCKET
        return self.max_median_s.get(metric, math.inf) * (FEW_SAMPLES_MARGIN if few else 1.0)


def normal_of(store: CellStore, baseline: Seconds | None) -> Normal | None:
    """The baseline's envelope; None without a baseline or without a single event in it."""
    whole = baseline.whole() if baseline is not None else range(0)
    events = sum(store.counts.get((s, "*"), Count()).events for s in whole)
    if events == 0:
        return None
    width = max(1, math.ceil(SAMPLES_PER_BUCKET * len(whole) / events))
    found = buckets(store, whole.start, whole.stop, width)
    if not found:
        return Normal(width, 0, 0, 0, {})
    highest = {
        metric: max((b.medians[metric] for b in found if metric in b.medians), default=math.inf)
        for metric in _MEDIANS
    }
    return Normal(width, len(found), min(b.tokens for b in found), max(b.failed for b in found), highest)


def buckets(store: CellStore, begin_s: int, end_s: int, width_s: int) -> list[Bucket]:
    """Whole buckets from ``begin_s`` on, none reaching beyond ``end_s``."""
    return [_bucket(store, s, width_s) for s in range(begin_s, end_s - width_s + 1, width_s)]


def _bucket(store: CellStore, begin_s: int, width_s: int) -> Bucket:
    inside = range(begin_s, begin_s + width_s)
    counts = [store.counts.get((s, "*"), Count()) for s in inside]
    medians = {}
    for metric in _MEDIANS:
        seen = [store.median_s[s, metric] for s in inside if (s, metric) in store.median_s]
        if seen:
            medians[metric] = median_low(seen)
    tokens, failed, requests = (sum(getattr(c, f) for c in counts) for f in ("tokens", "failed", "resolved"))
    return Bucket(begin_s, tokens, failed, requests, medians)


def measure_recovery(evidence: Evidence, fault: FaultFact) -> Recovery:
    """Recovery after one fault; says why where it was not measured. Judges nothing."""
    lost = sum(
        c.failed for (_, g), c in evidence.store.counts.items() if g in (fault.name, f"{fault.name}.recovery")
    )
    if not fault.recovery_measured:
        return Recovery(
            fault.name, False, sentence="not measured: the scenario goes on at once", requests_lost=lost
        )
    watch = _watch(evidence, fault)
    if isinstance(watch, str):
        return Recovery(fault.name, False, sentence=f"not measured: {watch}", requests_lost=lost)
    baseline = seconds_of(span_of(evidence.segments, "baseline"), evidence.t0_ns, evidence.ended_ns)
    normal = normal_of(evidence.store, baseline)
    if normal is None or normal.buckets < MIN_BASELINE_BUCKETS:
        have, width = (normal.buckets, normal.width_s) if normal else (0, 1)
        why = (
            f"the baseline has {have} buckets of {width} s, {MIN_BASELINE_BUCKETS} are needed: "
            "lengthen it or raise the load"
        )
        return Recovery(fault.name, False, None, watch.length_s, f"not measured: {why}", lost, None, width)
    return _measured(evidence, fault, watch, normal, lost)


def _measured(evidence: Evidence, fault: FaultFact, watch: Seconds, normal: Normal, lost: int) -> Recovery:
    first = math.floor(watch.begin_s)
    found = buckets(evidence.store, first, math.floor(watch.end_s + 1e-6), normal.width_s)
    start = _start_of_run([normal.good(b) for b in found])
    seconds_ = None if start is None else max(0.0, found[start].begin_s - watch.begin_s)
    what = "revert" if fault.reversible else "injection"
    tail = f"; {number(lost)} requests lost" if lost else ""
    if seconds_ is None:
        sentence = f"not recovered within the {seconds(watch.length_s)} watched after the {what}{tail}"
    else:
        when = f"{seconds(seconds_)} after" if seconds_ else "at once with"
        sentence = f"recovered {when} the {what} (to within {normal.width_s} s){tail}"
    detect_s = _time_to_detect(evidence, fault, watch, normal)
    return Recovery(
        fault.name, True, seconds_, watch.length_s, sentence, lost, detect_s, float(normal.width_s)
    )


def _start_of_run(good: list[bool]) -> int | None:
    run = 0
    for i, is_good in enumerate(good):
        run = run + 1 if is_good else 0
        if run == RUN_LENGTH:
            return i - RUN_LENGTH + 1
    return None


def _watch(evidence: Evidence, fault: FaultFact) -> Seconds | str:
    """The time in which the recovery can be seen, or why there is none."""
    times = evidence.segments.faults.get(fault.name)
    begin = None if times is None else times.revert_ack if fault.reversible else times.inject_ack
    if times is None or begin is None:
        return "the fault was never reverted" if fault.reversible else "the fault was never injected"
    end = times.recovery_end if times.recovery_end is not None else evidence.ended_ns
    if end is None:
        return "the run ended before it could be watched"
    for name, other in evidence.segments.faults.items():
        if name == fault.name or other.inject_begin is None:
            continue
        other_end = other.revert_ack if other.reversible else other.inject_ack
        if other.inject_begin > begin:
            end = min(end, other.inject_begin)
        elif other_end is None or other_end > begin + NS_PER_S:
            return f"fault {name} was still active"
    return Seconds((begin - evidence.t0_ns) / NS_PER_S, (end - evidence.t0_ns) / NS_PER_S)


def _time_to_detect(evidence: Evidence, fault: FaultFact, watch: Seconds, normal: Normal) -> float | None:
    """From the acknowledged injection to the end of the first bucket that is not good; None = never."""
    times = evidence.segments.faults[fault.name]
    if times.inject_ack is None:
        return None
    injected_s = (times.inject_ack - evidence.t0_ns) / NS_PER_S
    end_s = watch.begin_s if fault.reversible else watch.end_s
    for bucket in buckets(evidence.store, math.floor(injected_s), math.floor(end_s), normal.width_s):
        if not normal.good(bucket):
            return bucket.begin_s + normal.width_s - injected_s
    return None


def judge_recovery(objective: Objective, recovery: Recovery) -> SegmentVerdict:
    """``recovery <= 30s`` for one fault. Not measured, or watched for less than the limit, decides nothing."""
    allowed = f"; {seconds(objective.limit)} allowed"
    segment = f"{recovery.fault}.recovery"
    if not recovery.measured:
        state, tail = State.INCONCLUSIVE, ""
    elif recovery.seconds is not None:
        state, tail = State.PASS if recovery.seconds <= objective.limit else State.FAIL, allowed
    elif recovery.watched_s >= objective.limit:
        state, tail = State.FAIL, allowed
    else:
        state, tail = State.INCONCLUSIVE, f"{allowed}: watch it for longer (phases.recovery)"
    return SegmentVerdict(
        segment, state, recovery.sentence + tail, limit=objective.limit, observed=recovery.seconds
    )
