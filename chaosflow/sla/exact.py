"""The exact rule: (n, k) against an allowed share p0.

With (n, k) divided by the design effect and rounded against each claim,

- ``fail`` iff P(X >= k | n, p0) < alpha,
- ``pass`` iff P(X <= k | n, p0) <= 0.05, uncorrected: a run passes only if every part passes,
- otherwise ``inconclusive``.

Two consecutive failing windows are a second way to fail. Both ways share alpha: the whole segment
gets 90 % of it where there are windows to look at, the pairs of windows the rest in equal parts. A
pair fails only if both of its windows do at the pair's own level, so its chance on a healthy service
is at most that level however much the windows resemble each other, and the sum stays within alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaosflow.core.columns import Ints
from chaosflow.core.slo import State
from chaosflow.core.slots import Blocks, Cell
from chaosflow.sla.binomial import PASS_LEVEL, lower_tail, smallest_n, upper_tail
from chaosflow.sla.design import design_effect, effective_for_fail, effective_for_pass

WINDOWS_PART = 0.1
"""The part of alpha that the pairs of windows get."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the exact rule says of one objective in one segment."""

    state: State
    total: Cell
    effect: float = 1.0
    needs_more: int | None = None
    """Further samples without an exceedance until it would pass; only where inconclusive."""
    failing_windows: bool = False
    """It fails by two consecutive windows and not as a whole."""
    low: State = State.INCONCLUSIVE
    high: State = State.INCONCLUSIVE
    """What it would be with every interval stamp at its earliest, and at its latest."""


@dataclass(frozen=True, slots=True, eq=False)
class _End:
    """The samples with every interval stamp taken at one end."""

    second: Ints
    n: Ints
    k_fail: Ints
    k_pass: Ints

    @classmethod
    def of(cls, blocks: Blocks, *, high: bool) -> _End:
        k_fail, k_pass = (blocks.fail_high, blocks.pass_high) if high else (blocks.fail_low, blocks.pass_low)
        return cls(blocks.second, blocks.n, k_fail, k_pass)

    def effect(self, k: Ints) -> float:
        return design_effect(self.second, self.n, k)


def decide(blocks: Blocks, p0: float, alpha: float, windows: Sequence[Blocks] = ()) -> Decision:
    """Judge the blocks of one segment; ``windows`` are the same blocks, tumbling, or nothing.

    Where interval stamps make the two ends differ the state is ``invalid``: the receive stamps cannot
    tell. With an allowed share of 0 the claim is about what was seen: one exceedance fails, none
    passes. No sample at all is ``inconclusive``, never ``pass``.
    """
    total = blocks.total()
    p0 = round(p0, 12)  # 1 - 0.99 is 0.010000000000000009, and 1 - 1.0 must be 0
    if total.n == 0:
        needs = smallest_n(0, p0) if 0 < p0 < 1 else 1
        return Decision(State.INCONCLUSIVE, total, needs_more=needs)
    low = _decide_end(blocks, p0, alpha, windows, high=False)
    exact = total.fail_low == total.fail_high and total.pass_low == total.pass_high
    high = low if exact else _decide_end(blocks, p0, alpha, windows, high=True)
    worse = max(low, high, key=lambda d: d[0])
    state, effect, by_windows = worse
    if low[0] is not high[0]:
        state = State.INVALID
    needs_more = _needs_more(total, effect, p0) if state is State.INCONCLUSIVE else None
    return Decision(state, total, effect, needs_more, by_windows, low[0], high[0])


def _decide_end(
    blocks: Blocks, p0: float, alpha: float, windows: Sequence[Blocks], *, high: bool
) -> tuple[State, float, bool]:
    """(state, design effect, whether only the windows fail) at one end of the interval stamps."""
    end = _End.of(blocks, high=high)
    n, k_fail, k_pass = int(end.n.sum()), int(end.k_fail.sum()), int(end.k_pass.sum())
    if p0 <= 0:
        return (State.FAIL if k_fail else State.INCONCLUSIVE if k_pass else State.PASS), 1.0, False
    if p0 >= 1:
        return State.PASS, 1.0, False
    effect_fail = end.effect(end.k_fail)
    same = np.array_equal(end.k_pass, end.k_fail)
    effect_pass = effect_fail if same else end.effect(end.k_pass)
    whole_alpha = alpha * (1 - WINDOWS_PART) if len(windows) >= 2 else alpha
    if _fails(n, k_fail, effect_fail, p0, whole_alpha):
        return State.FAIL, effect_fail, False
    if len(windows) >= 2 and _pair_fails(windows, p0, alpha * WINDOWS_PART, high=high):
        return State.FAIL, effect_fail, True
    n_effective, k_effective = effective_for_pass(n, k_pass, effect_pass)
    if lower_tail(k_effective, n_effective, p0) <= PASS_LEVEL:
        return State.PASS, effect_pass, False
    return State.INCONCLUSIVE, effect_pass, False


def _fails(n: int, k: int, effect: float, p0: float, alpha: float) -> bool:
    n_effective, k_effective = effective_for_fail(n, k, effect)
    return upper_tail(k_effective, n_effective, p0) < alpha


def _pair_fails(windows: Sequence[Blocks], p0: float, alpha: float, *, high: bool) -> bool:
    """Whether any two neighbouring windows both fail at the level of one pair."""
    pair_alpha = alpha / (len(windows) - 1)
    before = False
    for window in windows:
        end = _End.of(window, high=high)
        now = _fails(int(end.n.sum()), int(end.k_fail.sum()), end.effect(end.k_fail), p0, pair_alpha)
        if before and now:
            return True
        before = now
    return False


def _needs_more(total: Cell, effect: float, p0: float) -> int | None:
    if not 0 < p0 < 1:
        return None
    k_effective = math.ceil(total.pass_high / effect)
    return max(1, math.ceil(smallest_n(k_effective, p0) * effect) - total.n)
