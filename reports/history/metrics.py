"""What the history keeps of a run: one number per segment and metric, and how much a change of it matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaosflow.core.result import Quantiles, RunResult, SegmentResult
from chaosflow.reports import words

MIN_SAMPLES = {"p50": 5, "p95": 20, "p99": 100}
"""A percentile of fewer samples is left out: it would be the maximum by another name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How one number is read: its unit, which way is better, and the least change worth a word."""

    label: str
    unit: str
    floor: float
    """Changes below this are never worth a word, in the metric's unit, whatever they are relatively."""
    lower_is_better: bool = True
    relative: bool = True
    """A change is a ratio; for a share it is a difference."""


def _times(name: str) -> dict[str, Metric]:
    return {f"{name.lower()}_{q}_ms": Metric(f"{name} {q.upper()}", "ms", 0.5) for q in MIN_SAMPLES}


METRICS: dict[str, Metric] = {
    **_times("TTFT"),
    **_times("gap"),
    **_times("e2e"),
    "error_share": Metric("errors", "share", 0.01, relative=False),
    "tokens_per_s": Metric("tokens/s", "tokens/s", 1.0, lower_is_better=False),
    "recovery_s": Metric("recovery", "s", 1.0),
}
"""Name in the history -> how to read it. ``recovery_s`` has steps of a bucket, hence its floor."""

JUDGED = ("ttft_p95_ms", "gap_p95_ms", "e2e_p95_ms", "error_share", "tokens_per_s", "recovery_s")
"""What ``chaosflow nightly`` judges unless the suite names others."""


@dataclass(frozen=True, slots=True)
class Value:
    """One number and how many samples it is made of."""

    value: float
    n: int


Key = tuple[str, str]
"""(segment, metric)."""


def values_of(result: RunResult) -> dict[Key, Value]:
    """Everything the history keeps of a run's measurement; warm-up, edges and what has no samples are left out.

    A recovery that was not reached counts as the time it was watched for: it was at least that long.
    """
    found: dict[Key, Value] = {}
    for segment in result.segments:
        if segment.kind not in ("warmup", "edge"):
            found.update({(segment.name, name): value for name, value in _of_segment(segment)})
    for fault in result.faults:
        recovery = fault.recovery
        if recovery is not None and recovery.measured:
            seconds = recovery.watched_s if recovery.seconds is None else recovery.seconds
            found[f"{fault.name}.recovery", "recovery_s"] = Value(seconds, 1)
    return found


def _of_segment(segment: SegmentResult) -> Iterator[tuple[str, Value]]:
    for name, quantiles in (("ttft", segment.ttft), ("gap", segment.gap), ("e2e", segment.e2e)):
        yield from _of_quantiles(name, quantiles)
    if segment.resolved:
        yield "error_share", Value(segment.failed / segment.resolved, segment.resolved)
    if segment.end_s - segment.begin_s >= 1:
        yield "tokens_per_s", Value(segment.tokens_per_s, segment.tokens)


def _of_quantiles(name: str, quantiles: Quantiles) -> Iterator[tuple[str, Value]]:
    for q, least in MIN_SAMPLES.items():
        value = getattr(quantiles, f"{q}_ms")
        if value is not None and quantiles.n >= least:
            yield f"{name}_{q}_ms", Value(value, quantiles.n)


def change(name: str, before: float, after: float) -> float:
    """How much worse (above 0) or better (below 0): relative, or the difference for a share.

    A ratio counts from the better of the two, so that +25 % and its way back are the same size.
    """
    metric = METRICS[name]
    if metric.lower_is_better:
        worse, better = after, before
    else:
        worse, better = before, after
    if not metric.relative:
        return worse - better
    if worse <= 0 or better <= 0:
        return 0.0 if worse == better else float("inf") if worse > better else float("-inf")
    return worse / better - 1 if worse >= better else 1 - better / worse


def matters(name: str, before: float, after: float, min_effect: float) -> bool:
    """Whether a change, in either direction, is large enough to be told of; ``min_effect`` is a share."""
    metric = METRICS[name]
    if abs(after - before) < metric.floor:
        return False
    return not metric.relative or abs(change(name, before, after)) >= min_effect


def shown(name: str, value: float | None) -> str:
    """A value with its unit: ``412 ms``, ``0.4 %``."""
    if value is None:
        return words.NONE
    unit = METRICS[name].unit
    return words.share(value) if unit == "share" else f"{words.number(value)} {unit}"


def change_words(name: str, before: float, after: float) -> str:
    """``+18 %`` (of the former value), or ``+1.2 points`` for a share; ``unchanged``. Says nothing of better or worse."""
    if before == after:
        return "unchanged"
    if not METRICS[name].relative:
        return f"{100 * (after - before):+.2g} points"
    if before == 0:
        return "from 0"
    ratio = after / before
    return f"{100 * (ratio - 1):+.0f} %" if ratio < 3 else f"x {ratio:.1f}"
