"""How fast the service comes back after a fault, from the client's tokens and not from readiness.

From the acknowledged revert (from the injection where nothing can be reverted) to the start of the
first run of 3 consecutive good buckets. A bucket is good when no more requests fail in it than in any
baseline bucket, its tokens reach the baseline buckets' minimum, and its median ttft and gap do not
exceed their maximum. Not reached is censored, never 0.

The minimum of 20 healthy buckets is undercut by every 21st healthy one, and three measures are looked at:
after a fault that did nothing, every seventh bucket would be bad. So the envelope of fewer than 100
buckets is widened to what 100 would show: the one-sided 99 % prediction bound of one further bucket
(Student's t; medians by their logarithms, because those of a few requests are skewed), never narrowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import mean, median_low, stdev

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.segments import edges_of
from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.core.slots import CellStore
from chaosflow.sla.evidence import Evidence, FaultFact, Recovery
from chaosflow.sla.spans import Seconds, seconds_of, span_of
from chaosflow.sla.words import number, seconds

RUN_LENGTH = 3
"""Consecutive good buckets that count as recovered."""
MIN_BASELINE_BUCKETS = 20
SAMPLES_PER_BUCKET = 50
ENOUGH_BUCKETS = 100
"""From so many on the baseline's own minimum and maximum are the envelope."""
FAILING_SHARE = 0.1
"""A baseline of which more than so much failed is no measure: to be back at it is no recovery."""
_Z99 = 2.3263
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
    """What a bucket of the baseline looks like at its worst."""

    width_s: int
    buckets: int
    min_tokens: int
    max_failed: int
    max_median_s: dict[str, float]

    def good(self, bucket: Bucket) -> bool:
        return (
            bucket.failed <= self.max_failed
            and bucket.tokens >= max(1, self.min_tokens)
            and all(v <= self.max_median_s.get(m, math.inf) for m, v in bucket.medians.items())
        )


def normal_of(store: CellStore, baseline: Seconds | None) -> Normal | None:
    """The baseline's envelope; None without a baseline or without a single event in it."""
    whole = baseline.whole() if baseline is not None else range(0)
    events = store.counts.between(whole.start, whole.stop, "*").events
    if events == 0:
        return None
    width = max(1, math.ceil(SAMPLES_PER_BUCKET * len(whole) / events))
    found = buckets(store, whole.start, whole.stop, width)
    if not found:
        return Normal(width, 0, 0, 0, {})
    highest = {
        metric: _most([b.medians[metric] for b in found if metric in b.medians]) for metric in _MEDIANS
    }
    least = _least([b.tokens for b in found])
    return Normal(width, len(found), least, max(b.failed for b in found), highest)


def _least(tokens: list[int]) -> int:
    """The fewest tokens of a bucket that is normal."""
    if len(tokens) < 2 or len(tokens) >= ENOUGH_BUCKETS:
        return min(tokens)
    return min(min(tokens), math.floor(mean(tokens) - _reach(len(tokens)) * stdev(tokens)))


def _most(medians: list[float]) -> float:
    """The largest median of a bucket that is normal; infinite without any."""
    if not medians:
        return math.inf
    if len(medians) < 2 or len(medians) >= ENOUGH_BUCKETS or min(medians) <= 0:
        return max(medians)
    logs = [math.log(m) for m in medians]
    return max(max(medians), math.exp(mean(logs) + _reach(len(logs)) * stdev(logs)))


def _reach(n: int) -> float:
    """t(0.99, n - 1) sqrt(1 + 1/n): how many standard deviations the next of n + 1 stays within, at 99 %.

    The quantile is Fisher's expansion (Abramowitz and Stegun 26.7.5), within 0.1 % from n = 20 on.
    """
    v, z = n - 1, _Z99
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v * v)
    return t * math.sqrt(1 + 1 / n)


def buckets(store: CellStore, begin_s: int, end_s: int, width_s: int) -> list[Bucket]:
    """Whole buckets from ``begin_s`` on, none reaching beyond ``end_s``."""
    count = max(0, (end_s - begin_s) // width_s)
    end_s = begin_s + count * width_s

    def sums(field: str) -> list[int]:
        by_second = store.counts.series(field, begin_s, end_s, "*")
        return [int(n) for n in by_second.reshape(count, width_s).sum(axis=1)]

    medians = {
        metric: store.median_s.series(begin_s, end_s, metric).reshape(count, width_s).tolist()
        for metric in _MEDIANS
    }
    rows = zip(sums("tokens"), sums("failed"), sums("resolved"), strict=True)
    return [
        Bucket(
            begin_s + i * width_s, *row, {m: v for m in _MEDIANS if (v := _median(medians[m][i])) is not None}
        )
        for i, row in enumerate(rows)
    ]


def _median(values: list[float]) -> float | None:
    seen = [v for v in values if v == v]  # nan: a second without samples
    if len(seen) < 2:
        return seen[0] if seen else None
    return median_low(seen)


def measure_recoveries(evidence: Evidence) -> dict[str, Recovery]:
    """By fault, those that were never attempted left out; says why where it was not measured. Judges nothing."""
    normal = normal_in(evidence)
    return {f.name: _recovery(evidence, f, normal) for f in evidence.faults if f.attempted}


def normal_in(evidence: Evidence) -> Normal | None:
    """What is normal by the baseline of this evidence; None without one."""
    baseline = seconds_of(span_of(evidence.segments, "baseline"), evidence.t0_ns, evidence.ended_ns)
    return normal_of(evidence.store, baseline)


def _baseline_failing(evidence: Evidence) -> float:
    """The share of the baseline's requests that failed; 0 without any."""
    count = evidence.store.counts.total("baseline")
    return count.failed / count.resolved if count.resolved else 0.0


def _recovery(evidence: Evidence, fault: FaultFact, normal: Normal | None) -> Recovery:
    counts = evidence.store.counts
    names = (fault.name, f"{fault.name}.recovery", *edges_of(fault.name))
    lost = sum(counts.total(name).failed for name in names)
    if not fault.recovery_measured:
        return Recovery(
            fault.name, False, sentence="not measured: the scenario goes on at once", requests_lost=lost
        )
    watch = _watch(evidence, fault)
    if isinstance(watch, str):
        return Recovery(fault.name, False, sentence=f"not measured: {watch}", requests_lost=lost)
    if (share := _baseline_failing(evidence)) > FAILING_SHARE:
        why = f"the baseline was failing ({share:.0%} of its requests), so nothing says what normal is"
        return Recovery(fault.name, False, None, watch.length_s, f"not measured: {why}", lost)
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
    detect_s = _time_to_detect(evidence, fault, watch, normal)
    if len(found) < RUN_LENGTH:
        why = f"it was watched for {seconds(watch.length_s)}, and {RUN_LENGTH} buckets of {normal.width_s} s are needed"
        return Recovery(
            fault.name, False, None, watch.length_s, f"not measured: {why}", lost, detect_s, normal.width_s
        )
    good = [normal.good(b) for b in found]
    start = _start_of_run(good)
    good_for_s = (
        0.0 if start is not None else float(normal.width_s * len(list(takewhile(bool, reversed(good)))))
    )
    seconds_ = None if start is None else max(0.0, found[start].begin_s - watch.begin_s)
    what = "revert" if fault.reversible else "injection"
    tail = f"; {number(lost)} requests lost" if lost else ""
    if seconds_ is None:
        though = f", though its last {seconds(good_for_s)} were good" if good_for_s else ""
        sentence = (
            f"not recovered within the {seconds(watch.length_s)} watched after the {what}{though}{tail}"
        )
    else:
        when = f"{seconds(seconds_)} after" if seconds_ else "at once with"
        sentence = f"recovered {when} the {what} (to within {normal.width_s} s){tail}"
    return Recovery(
        fault.name,
        True,
        seconds_,
        watch.length_s,
        sentence,
        lost,
        detect_s,
        float(normal.width_s),
        good_for_s,
        _tokens_lost(evidence, fault, watch, seconds_),
    )


def _tokens_lost(
    evidence: Evidence, fault: FaultFact, watch: Seconds, recovered_s: float | None
) -> int | None:
    """What the baseline's rate would have brought from the injection to the recovery, minus what came."""
    injected = evidence.segments.faults[fault.name].inject_ack
    baseline = seconds_of(span_of(evidence.segments, "baseline"), evidence.t0_ns, evidence.ended_ns)
    if injected is None or baseline is None or not baseline.whole():
        return None
    counts, normal = evidence.store.counts, baseline.whole()
    rate = counts.between(normal.start, normal.stop, "*").tokens / len(normal)
    end_s = watch.end_s if recovered_s is None else watch.begin_s + recovered_s
    whole = Seconds((injected - evidence.t0_ns) / NS_PER_S, end_s).whole()
    return max(0, round(rate * len(whole)) - counts.between(whole.start, whole.stop, "*").tokens)


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
    """From the acknowledged injection to the end of the first of two bad buckets in a row; None = never.

    A single one may be chance: of the 30 healthy buckets of a fault that does nothing, one is bad in every other run.
    """
    times = evidence.segments.faults[fault.name]
    if times.inject_ack is None:
        return None
    injected_s = (times.inject_ack - evidence.t0_ns) / NS_PER_S
    end_s = watch.begin_s if fault.reversible else watch.end_s
    found = buckets(evidence.store, math.floor(injected_s), math.floor(end_s), normal.width_s)
    for bucket, following in pairwise(found):
        if not normal.good(bucket) and not normal.good(following):
            return bucket.begin_s + normal.width_s - injected_s
    return None


def judge_recovery(objective: Objective, recovery: Recovery) -> SegmentVerdict:
    """``recovery <= 30s`` for one fault. Decides nothing where it may have begun in time."""
    allowed = f"; {seconds(objective.limit)} allowed"
    segment = f"{recovery.fault}.recovery"
    if not recovery.measured:
        state, tail = State.INCONCLUSIVE, ""
    elif recovery.seconds is not None:
        state, tail = State.PASS if recovery.seconds <= objective.limit else State.FAIL, allowed
    elif recovery.watched_s - recovery.good_for_s >= objective.limit:
        state, tail = State.FAIL, allowed
    else:
        state, tail = State.INCONCLUSIVE, f"{allowed}: watch it for longer (phases.recovery)"
    return SegmentVerdict(
        segment, state, recovery.sentence + tail, limit=objective.limit, observed=recovery.seconds
    )
