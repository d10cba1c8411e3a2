"""Two runs compared, segment by segment: is the second one worse?

Per segment and time: where the bulk lies (rank test) and how heavy the tail is (share beyond the pooled
P95); the share of errors; tokens per second. Requests of one run are no independent samples, so every
test is weakened by the design effect of its one-second blocks. A difference counts only if it is both
significant, after Holm's correction over all tests, and at least the minimum effect. What differs from
one run to the next by chance alone cannot be seen in two runs; where the history holds five more of the
same series, a difference must also exceed what those differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from chaosflow.core.histogram import Histogram
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import METRICS, Key, change, change_words, matters, shown
from chaosflow.reports.history.ranks import (
    design_effect,
    holm,
    newcombe,
    placements,
    rank_test,
    student_p,
    two_shares_p,
)
from chaosflow.reports.history.samples import FAILED, Blocks, SegmentSamples, matrix

TIMES = ("ttft", "gap", "e2e")
TAIL = 0.95
MIN_BLOCKS, MIN_SAMPLES = 5, 20
ALPHA = 0.05
LEAST_RUNS = 5
"""Other runs of a series that tell what its runs differ by."""
_RESAMPLES, _SEED = 400, 7

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test: ``state`` is worse, better, none, undecided or few (samples)."""

    segment: str
    metric: str
    """Name in the history: ``ttft_p50_ms`` for the bulk, ``ttft_p95_ms`` for the tail."""
    state: str
    before: float | None
    after: float | None
    low: float | None = None
    """95 % interval of the ratio after/before; of the difference for a share."""
    high: float | None = None
    p: float = 1.0
    """Two-sided; adjusted by Holm once all tests are known."""
    effect: float = 1.0
    """Design effect."""
    n: tuple[int, int] = (0, 0)
    why: str = ""
    """Why the test could not be made: state ``few``."""
    usual: float | None = None
    """By how much two runs of this series differ in 95 % of cases, in the metric's unit; None = not known."""

    @property
    def sentence(self) -> str:
        if self.before is None or self.after is None:
            return self.why
        text = f"{shown(self.metric, self.before)} -> {shown(self.metric, self.after)}"
        text += f", {change_words(self.metric, self.before, self.after)}"
        if self.low is not None and self.high is not None:
            text += f" (95 %: {_signed(self.metric, self.low)} to {_signed(self.metric, self.high)})"
        if self.usual is not None and self.state != "none":
            text += f"; runs usually differ by up to {shown(self.metric, self.usual)}"
        return text


def _signed(metric: str, value: float) -> str:
    return f"{100 * (value - 1):+.0f} %" if METRICS[metric].relative else f"{100 * value:+.2g}"


def compare(
    first: Mapping[str, SegmentSamples],
    second: Mapping[str, SegmentSamples],
    segments: list[str],
    min_effect: float,
    usual: Mapping[Key, float] | None = None,
) -> list[Comparison]:
    """Every test of every segment that both runs have, in order of ``segments``; Holm-adjusted.

    ``usual``: see ``usual_differences``.
    """
    found = [
        test
        for segment in segments
        if segment in first and segment in second
        for test in _segment(segment, first[segment], second[segment])
    ]
    adjusted = holm([test.p for test in found])
    known = usual or {}
    return [
        _decided(replace(test, p=p, usual=known.get((test.segment, test.metric))), min_effect)
        for test, p in zip(found, adjusted, strict=True)
    ]


def usual_differences(others: Sequence[Entry]) -> dict[Key, float]:
    """(segment, metric) -> what two runs of one series differ by in 95 % of cases, from other runs of it.

    Robust (median absolute deviation), for normal noise; empty with fewer than five runs.
    """
    values: dict[Key, list[float]] = {}
    for entry in others:
        for key, value in entry.values.items():
            values.setdefault(key, []).append(value.value)
    return {key: _usual(found) for key, found in values.items() if len(found) >= LEAST_RUNS}


def _usual(values: list[float]) -> float:
    middle = median(values)
    return 1.96 * math.sqrt(2) * 1.4826 * median(abs(v - middle) for v in values)


def overall(comparisons: list[Comparison]) -> str:
    """``worse`` if any is; ``undecided`` if any is; ``few`` if no time and no rate could be tested; else ``none``.

    The share of errors alone, which two runs of three seconds have too, says nothing of how fast they were.
    """
    states = {c.state for c in comparisons}
    for state in ("worse", "undecided"):
        if state in states:
            return state
    return "none" if any(c.state != "few" and c.metric != "error_share" for c in comparisons) else "few"


def _decided(test: Comparison, min_effect: float) -> Comparison:
    if test.before is None or test.after is None:
        return replace(test, state="few")
    within = test.usual is not None and abs(test.after - test.before) <= test.usual
    if within or not matters(test.metric, test.before, test.after, min_effect):
        return replace(test, state="none")
    worse = change(test.metric, test.before, test.after) > 0
    if test.p < ALPHA:
        return replace(test, state="worse" if worse else "better")
    return replace(test, state="undecided" if worse else "none")


def _segment(name: str, a: SegmentSamples, b: SegmentSamples) -> Iterator[Comparison]:
    for metric in TIMES:
        yield from _times(name, metric, a.times.get(metric, {}), b.times.get(metric, {}))
    yield _errors(name, a, b)
    yield _throughput(name, a, b)


def _times(segment: str, metric: str, a: Blocks, b: Blocks) -> Iterator[Comparison]:
    buckets = sorted({bucket for blocks in (a, b) for block in blocks.values() for bucket in block})
    one, other = matrix(a, buckets), matrix(b, buckets)
    n = int(one.sum()), int(other.sum())
    if too_few := _too_few(n, (len(a), len(b))):
        yield Comparison(segment, f"{metric}_p50_ms", "few", None, None, n=n, why=too_few)
        return
    yield _bulk(segment, metric, buckets, one, other)
    if min(n) >= 5 * MIN_SAMPLES:
        yield _tail(segment, metric, buckets, one, other)


def _too_few(n: tuple[int, int], seconds: tuple[int, int]) -> str:
    """Why two samples cannot be compared, in words; empty = they can."""
    if min(n) < MIN_SAMPLES:
        return f"too few samples ({n[0]:,} and {n[1]:,}; {MIN_SAMPLES} are needed)"
    if min(seconds) < MIN_BLOCKS:
        return f"too short ({seconds[0]} and {seconds[1]} s with samples; {MIN_BLOCKS} are needed)"
    return ""


def _bulk(segment: str, metric: str, buckets: list[int], one: Counts, other: Counts) -> Comparison:
    first, second = one.sum(axis=0), other.sum(axis=0)
    test = rank_test(first, second)
    effect = _rank_effect(one, other, first, second)
    p = student_p(test.z / math.sqrt(effect), min(len(one), len(other)) - 1)
    return _with_quantile(segment, metric, "p50", 0.5, buckets, one, other, p, effect)


def _rank_effect(one: Counts, other: Counts, first: Counts, second: Counts) -> float:
    """The design effect of the rank statistic: that of either sample's placements in the other, weighted
    by how much each contributes to the variance (N. Obuchowski, "Nonparametric analysis of clustered ROC
    curve data", 1997)."""
    plain = clustered = 0.0
    for blocks, own, against in ((one, first, second), (other, second, first)):
        share = placements(own, against)
        mean = float(own @ share) / own.sum()
        variance = float(own @ (share - mean) ** 2) / float(own.sum()) ** 2
        plain += variance
        clustered += variance * design_effect(share, blocks)
    return max(1.0, clustered / plain) if plain > 0 else 1.0


def _tail(segment: str, metric: str, buckets: list[int], one: Counts, other: Counts) -> Comparison:
    """The share beyond the P95 of both runs together."""
    first, second = one.sum(axis=0), other.sum(axis=0)
    pooled = np.cumsum(first + second)
    beyond = (np.arange(len(buckets)) > int(np.searchsorted(pooled, TAIL * pooled[-1]))).astype(np.float64)
    effect = max(design_effect(beyond, one), design_effect(beyond, other))
    counts = [float(x) / effect for x in (first @ beyond, first.sum(), second @ beyond, second.sum())]
    return _with_quantile(segment, metric, "p95", TAIL, buckets, one, other, two_shares_p(*counts), effect)


def _with_quantile(
    segment: str, metric: str, label: str, q: float, buckets: list[int], one: Counts, other: Counts, p: float, effect: float
) -> Comparison:  # fmt: skip
    before, after = (_quantile_ms(buckets, c.sum(axis=0), q) for c in (one, other))
    n = int(one.sum()), int(other.sum())
    name = f"{metric}_{label}_ms"
    if not math.isfinite(before) or not math.isfinite(after) or before <= 0:
        why = "0 before: nothing to compare with" if before <= 0 else "too many failed: see the errors"
        return Comparison(segment, name, "few", None, None, p=1.0, n=n, why=why)
    low, high = _ratio_interval(buckets, one, other, q)
    return Comparison(segment, name, "", before, after, low, high, p, effect, n)


def _ratio_interval(buckets: list[int], one: Counts, other: Counts, q: float) -> tuple[float, float]:
    """95 % of the ratio of quantiles, by drawing whole blocks anew."""
    rng = np.random.default_rng(_SEED)
    values = np.array([_bucket_ms(b) for b in buckets])
    quantiles = []
    for blocks in (one, other):
        weights = rng.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=_RESAMPLES)
        sums = np.cumsum(weights.astype(np.float64) @ blocks.astype(np.float64), axis=1)
        place = np.argmax(sums >= np.maximum(1, np.ceil(q * sums[:, -1:])), axis=1)
        quantiles.append(values[place])
    first, second = quantiles
    fit = (
        (first > 0) & np.isfinite(first) & np.isfinite(second)
    )  # gaps within one read are 0, failures have no end
    ratios = second[fit] / first[fit]
    if not len(ratios):
        return 0.0, math.inf
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def _bucket_ms(bucket: int) -> float:
    if bucket == FAILED:
        return math.inf
    return (Histogram({bucket: 1}).rank_ns(1) or 0.0) / 1e6


def _quantile_ms(buckets: list[int], counts: Counts, q: float) -> float:
    sums = np.cumsum(counts)
    return _bucket_ms(buckets[int(np.argmax(sums >= max(1, math.ceil(q * sums[-1]))))])


def _errors(segment: str, a: SegmentSamples, b: SegmentSamples) -> Comparison:
    n = sum(a.resolved.values()), sum(b.resolved.values())
    if min(n) < MIN_SAMPLES:
        return Comparison(segment, "error_share", "few", None, None, n=n, why=_too_few(n, (0, 0)))
    failed = sum(a.failed.values()), sum(b.failed.values())
    effect = max(_error_effect(a), _error_effect(b))
    shares = [x / effect for x in (failed[0], n[0], failed[1], n[1])]
    low, high = newcombe(*shares)
    p = two_shares_p(*shares)
    return Comparison(segment, "error_share", "", failed[0] / n[0], failed[1] / n[1], low, high, p, effect, n)


def _error_effect(samples: SegmentSamples) -> float:
    rows = [
        (samples.resolved[s] - samples.failed.get(s, 0), samples.failed.get(s, 0))
        for s in sorted(samples.resolved)
    ]
    return design_effect(np.array([0.0, 1.0]), np.array(rows, dtype=np.int64).reshape(-1, 2))


def _throughput(segment: str, a: SegmentSamples, b: SegmentSamples) -> Comparison:
    """Tokens of whole seconds: the first and the last of a segment are cut."""
    one, other = (np.array([s.tokens[t] for t in sorted(s.tokens)][1:-1], dtype=np.float64) for s in (a, b))
    n = int(one.sum()), int(other.sum())
    if min(len(one), len(other)) < MIN_BLOCKS or min(n) <= 0:
        short = f"too short ({len(one)} and {len(other)} whole s with tokens; {MIN_BLOCKS} are needed)"
        why = short if min(n) > 0 else "no tokens"
        return Comparison(segment, "tokens_per_s", "few", None, None, n=n, why=why)
    before, after = float(one.mean()), float(other.mean())
    error = math.sqrt(_variance_of_mean(one) / before**2 + _variance_of_mean(other) / after**2)
    if error == 0:
        p, half = (1.0 if before == after else 0.0), 0.0
    else:
        p, half = student_p(math.log(after / before) / error, min(len(one), len(other)) - 1), 2 * error
    ratio = after / before
    return Comparison(
        segment, "tokens_per_s", "", before, after, ratio * math.exp(-half), ratio * math.exp(half), p, 1.0, n
    )


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    """With neighbouring seconds' likeness (Bartlett, one lag)."""
    rest = values - values.mean()
    own = float(rest @ rest)
    together = own + max(0.0, float(rest[:-1] @ rest[1:]))
    return together / (len(values) - 1) / len(values)
