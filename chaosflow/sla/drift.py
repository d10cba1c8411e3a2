"""``throughput.drift within 15%``: does the token rate stay where it was?

Output tokens are counted in tumbling windows. Each window is set against the one before it, and
against the baseline (within the baseline: against its first window), so that many small steps do not
slip through. Given their sum, the second of two Poisson counts is binomial; tokens come in bunches,
so counts are first divided by the measured dispersion (long-run variance / mean of the seconds; for
Poisson arrivals at least the tokens of a request, which makes the count that of requests).

``fail`` if any change lies wholly outside the limit at the test's level, shared among the comparisons;
``pass`` if every change lies wholly inside (two one-sided tests of 5 %); else ``inconclusive``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.core.slots import CellStore
from chaosflow.sla.binomial import PASS_LEVEL, clopper_pearson, lower_tail, upper_tail
from chaosflow.sla.spans import Seconds
from chaosflow.sla.words import percent, signed_percent

MIN_WINDOWS = 3
_MAX_LAG_S = 5


@dataclass(frozen=True, slots=True)
class Change:
    """The rate of one window over that of another, minus 1."""

    against: str
    window: int
    seen: float
    before: tuple[float, float]
    """Tokens and seconds of what it is set against."""
    after: tuple[float, float]
    dispersion: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """The exact interval of the change; the upper end may be infinite."""
        old, new = self._counts()
        low, high = clopper_pearson(new, old + new, confidence)
        return self._change_of(low), self._change_of(high)

    def outside(self, limit: float, level: float) -> bool:
        """Whether the interval that leaves out ``level`` on each side lies wholly beyond the limit."""
        old, new = self._counts()
        low, high = self._part_of(-limit), self._part_of(limit)
        return upper_tail(new, old + new, high) < level or lower_tail(new, old + new, low) < level

    def inside(self, limit: float, level: float) -> bool:
        """Whether the interval that leaves out ``level`` on each side lies wholly within the limit."""
        old, new = self._counts()
        low, high = self._part_of(-limit), self._part_of(limit)
        return upper_tail(new, old + new, low) <= level and lower_tail(new, old + new, high) <= level

    def _counts(self) -> tuple[int, int]:
        return round(self.before[0] / self.dispersion), round(self.after[0] / self.dispersion)

    def _part_of(self, change: float) -> float:
        """The share of the second count in both that makes this change."""
        ratio = max(0.0, 1 + change) * self.after[1] / self.before[1]
        return ratio / (1 + ratio)

    def _change_of(self, part: float) -> float:
        if part >= 1:
            return math.inf
        return part / (1 - part) * self.before[1] / self.after[1] - 1


def judge_drift(
    objective: Objective,
    segment: str,
    store: CellStore,
    *,
    alpha: float,
    span: Seconds | None,
    baseline: Seconds | None,
    window_s: float = 60.0,
    poisson: bool = False,
) -> SegmentVerdict:
    """One drift objective in one segment, from the store's true totals of each second."""
    seconds = span.whole() if span is not None else range(0)
    tokens = _tokens(store, seconds)
    width = min(max(1, int(window_s)), len(tokens) // MIN_WINDOWS)
    if width < 1:
        return _inconclusive(segment, objective, f"needs at least {MIN_WINDOWS} windows of 1 s")
    base_seconds = baseline.whole() if baseline else range(0)
    base_tokens = _tokens(store, base_seconds)
    if sum(tokens) == 0 and sum(base_tokens) == 0:
        return _inconclusive(segment, objective, "no token in this segment nor in the baseline")
    spread = max(dispersion(tokens, width), dispersion(base_tokens, width))
    if poisson:
        spread = max(spread, _tokens_per_request(store, (base_seconds, seconds)))
    windows = [sum(tokens[i : i + width]) for i in range(0, len(tokens) - width + 1, width)]
    reference = (sum(base_tokens), len(base_tokens)) if segment != "baseline" else (windows[0], width)
    return _verdict(
        objective, segment, _changes(windows, width, reference, spread), alpha, spread, sum(tokens)
    )


def _changes(windows: list[int], width: int, reference: tuple[int, int], spread: float) -> list[Change]:
    steps = [
        Change("the window before", i + 2, b / a - 1 if a else math.inf, (a, width), (b, width), spread)
        for i, (a, b) in enumerate(pairwise(windows))
        if a or b
    ]
    total, length = reference
    if length == 0 or total == 0:
        return steps
    return steps + [
        Change("the baseline", i + 1, n / width / (total / length) - 1, (total, length), (n, width), spread)
        for i, n in enumerate(windows)
        if (total, length) != (windows[0], width) or i > 1  # the second one is the first step already
    ]


def _verdict(
    objective: Objective, segment: str, changes: list[Change], alpha: float, spread: float, tokens: int
) -> SegmentVerdict:
    limit = objective.limit
    if not changes:
        return _inconclusive(segment, objective, "no two windows with tokens to compare")
    each = alpha / len(changes)
    failing = [c for c in changes if c.outside(limit, each)]
    worst = max(failing or changes, key=lambda c: abs(c.seen))
    if failing:
        state = State.FAIL
    elif all(c.inside(limit, PASS_LEVEL) for c in changes):
        state = State.PASS
    else:
        state = State.INCONCLUSIVE
    low, high = worst.interval(0.95)
    text = (
        f"throughput changed by {signed_percent(worst.seen)} at most (window {worst.window} against "
        f"{worst.against}; 95 % interval {signed_percent(low)} to {signed_percent(high)}, "
        f"{percent(limit)} allowed)"
    )
    if state is State.INCONCLUSIVE:
        text += "; the interval is too wide: raise the load or lengthen the windows"
    return SegmentVerdict(
        segment,
        state,
        text,
        n=tokens,
        design_effect=spread,
        limit=limit,
        observed=worst.seen if math.isfinite(worst.seen) else None,
        low=low,
        high=high if math.isfinite(high) else None,
    )


def _inconclusive(segment: str, objective: Objective, why: str) -> SegmentVerdict:
    return SegmentVerdict(segment, State.INCONCLUSIVE, f"throughput drift: {why}", limit=objective.limit)


def dispersion(per_second: list[int], width: int) -> float:
    """Long-run variance / mean of counts a second, at least 1.

    Deviations are taken from each window's own mean, so that a drift does not hide itself; neighbours
    up to a third of a window (5 s at most) count by Bartlett's weights (Newey and West, 1987).
    """
    windows = len(per_second) // width
    rows = np.array(per_second[: windows * width], np.float64).reshape(windows, width)
    total, size = float(rows.sum()), rows.size
    if total == 0 or size <= windows:
        return 1.0
    residuals = (rows - rows.mean(axis=1, keepdims=True)).ravel()
    lags = min(_MAX_LAG_S, width // 3)
    variance = float(residuals @ residuals)
    for lag in range(1, lags + 1):
        weight = 1 - lag / (lags + 1)
        variance += 2 * weight * float(residuals[:-lag] @ residuals[lag:])
    return max(1.0, variance / (size - windows) / (total / size))


def _tokens(store: CellStore, seconds: range) -> list[int]:
    return [int(n) for n in store.counts.series("tokens", seconds.start, seconds.stop, "*")]


def _tokens_per_request(store: CellStore, spans: Iterable[range]) -> float:
    counts = [store.counts.between(s.start, s.stop, "*") for s in spans]
    complete = sum(c.complete for c in counts)
    return sum(c.tokens for c in counts) / complete if complete else 1.0


def smallest_limit(requests_per_window: float) -> float:
    """The change that two windows of so many Poisson requests can just rule out (used for planning)."""
    if requests_per_window <= 0:
        return math.inf
    return 1.645 * math.sqrt(2 / requests_per_window)
