"""What clients saw around each revert: the curve that the recovery verdict was read from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.result import RecoveryCurve
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.sla.evidence import Evidence, Recovery
from chaosflow.sla.recovery import Bucket, Normal, buckets, normal_in

BEFORE_S = 10.0
MOST_POINTS = 120
MOST_CURVES = 24
"""Of a run with more faults, those that took longest to recover."""


def recovery_curves(
    evidence: Evidence, records: Sequence[FaultRecord], recoveries: Mapping[str, Recovery]
) -> dict[str, RecoveryCurve]:
    """By fault name. Nothing for a fault whose recovery was not watched, or without a baseline."""
    normal = normal_in(evidence)
    if normal is None:
        return {}
    watched = [
        (record, recovery, since_ns)
        for record in records
        if (recovery := recoveries.get(record.name)) is not None
        and recovery.watched_s
        and (since_ns := record.revert_ack_ns if record.atom.reversible else record.inject_ack_ns)
    ]
    watched.sort(key=lambda row: -_badness(row[1]))
    return {
        record.name: _curve(evidence, normal, (since_ns - evidence.t0_ns) / NS_PER_S, recovery.watched_s)
        for record, recovery, since_ns in watched[:MOST_CURVES]
    }


def _badness(recovery: Recovery) -> float:
    return math.inf if recovery.seconds is None else recovery.seconds


def _curve(evidence: Evidence, normal: Normal, since_s: float, watched_s: float) -> RecoveryCurve:
    width = max(normal.width_s, math.ceil((BEFORE_S + watched_s) / MOST_POINTS))
    before = math.ceil(BEFORE_S / width) * width
    first = max(0, math.floor(since_s) - before)
    found = buckets(evidence.store, first, math.floor(since_s + watched_s + 1e-6), width)
    highest = normal.max_median_s
    return RecoveryCurve(
        bucket_s=width,
        t_s=[round(b.begin_s - since_s, 3) for b in found],
        tokens_per_s=[round(b.tokens / width, 3) for b in found],
        ttft_p50_ms=[_ms(b, "ttft") for b in found],
        gap_p50_ms=[_ms(b, "gap") for b in found],
        normal_tokens_per_s=round(normal.min_tokens / normal.width_s, 3) if normal.buckets else None,
        normal_ttft_p50_ms=_limit_ms(highest, "ttft"),
        normal_gap_p50_ms=_limit_ms(highest, "gap"),
    )


def _ms(bucket: Bucket, metric: str) -> float | None:
    value_s = bucket.medians.get(metric)
    return None if value_s is None else round(value_s * 1e3, 3)


def _limit_ms(highest: Mapping[str, float], metric: str) -> float | None:
    value_s = highest.get(metric)
    return None if value_s is None or math.isinf(value_s) else round(value_s * 1e3, 3)
