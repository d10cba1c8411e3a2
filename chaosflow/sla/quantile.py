"""Objectives "P-q of x <= T": ttft, e2e, tpot by request, gap by content event."""

from __future__ import annotations

from chaosflow.core.histogram import Histogram
from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.core.slots import Blocks
from chaosflow.core.units import significant
from chaosflow.sla.binomial import lower_rank, upper_rank
from chaosflow.sla.exact import Decision, decide
from chaosflow.sla.spans import Seconds, tumbling
from chaosflow.sla.words import noun, number, of_total, percent, quantile_name, seconds, share_of

_NS = 1e9


def judge_quantile(
    objective: Objective,
    segment: str,
    blocks: Blocks,
    *,
    alpha: float,
    span: Seconds | None = None,
    window_s: float = 60.0,
    histogram: Histogram | None = None,
    limits: tuple[float, float] | None = None,
) -> SegmentVerdict:
    """One objective in one segment, from its one-second blocks.

    ``limits`` are the resolved (fail_s, pass_s) of a relative objective; without them it stays
    inconclusive. ``histogram`` (successes, ns) only shows the percentile; it decides nothing.
    """
    if objective.relative and limits is None:
        return _unresolved(objective, segment)
    fail_s, pass_s = limits if limits is not None else (objective.limit, objective.limit)
    p0 = objective.allowed_share
    decision = decide(blocks, p0, alpha, tumbling(blocks, span, window_s))
    observed, low, high = observed_quantile(objective.q, decision.total.n, histogram, decision.effect)
    return SegmentVerdict(
        segment=segment,
        state=decision.state,
        sentence=_sentence(objective, decision, fail_s, pass_s, observed),
        n=decision.total.n,
        k_low=decision.total.fail_low,
        k_high=decision.total.pass_high,
        allowed_share=p0,
        design_effect=decision.effect,
        limit=pass_s if decision.state is State.PASS else fail_s,
        observed=observed,
        low=low,
        high=high,
        needs_more=decision.needs_more,
    )


def observed_quantile(
    q: float, n: int, histogram: Histogram | None, effect: float = 1.0
) -> tuple[float | None, float | None, float | None]:
    """(nearest-rank quantile, lower, upper end of its 95 % interval) in s; None = not to be had.

    ``n`` counts failures too: they stand above every success, so a rank among them is censored.
    The interval's ranks are those of n / effect samples, scaled up.
    """
    if histogram is None or histogram.total == 0:
        return None, None, None
    count = max(n, histogram.total)
    effective = max(1, int(count / effect))
    observed = _rank_s(histogram, _nearest_rank(q, count))
    low_rank, high_rank = lower_rank(effective, q, 0.975), upper_rank(effective, q, 0.975)
    scale = count / effective
    low = _rank_s(histogram, max(1, int(low_rank * scale))) if low_rank else None
    high = _rank_s(histogram, min(count, -int(-high_rank * scale // 1))) if high_rank else None
    return observed, low, high


def _nearest_rank(q: float, n: int) -> int:
    """ceil(q n), not fooled by 0.95 * 20 = 19.000000000000004."""
    return max(1, -int(-(q * n - 1e-9) // 1))


def _rank_s(histogram: Histogram, rank: int) -> float | None:
    value_ns = histogram.rank_ns(rank)
    return None if value_ns is None else value_ns / _NS


def _unresolved(objective: Objective, segment: str) -> SegmentVerdict:
    return SegmentVerdict(
        segment,
        State.INCONCLUSIVE,
        f"{objective.metric}: the baseline held too few samples to fix the limit of "
        f"{objective.limit:g}x its {quantile_name(objective.q)}; lengthen the baseline or raise the load",
        allowed_share=objective.allowed_share,
    )


def _sentence(
    objective: Objective, decision: Decision, fail_s: float, pass_s: float, observed_s: float | None
) -> str:
    total, what = decision.total, noun(objective, decision.total.n)
    name = quantile_name(objective.q)
    needs = decision.needs_more
    if total.n == 0:
        return f"{objective.metric}: no {what} in this segment; {name} needs at least {number(needs or 1)}"
    passing = decision.state in (State.PASS, State.INCONCLUSIVE)
    low, high = (total.pass_low, total.pass_high) if passing else (total.fail_low, total.fail_high)
    seen = f"{name} is {seconds(observed_s)}: " if observed_s is not None else ""
    text = seen + (
        f"{objective.metric} over {seconds(pass_s if passing else fail_s)} in "
        f"{of_total(low, high, total.n, what)} ({share_of(low, high, total.n)}, "
        f"{name} allows {percent(objective.allowed_share)})"
    )
    return text + tail_of_sentence(objective, decision)


def tail_of_sentence(objective: Objective, decision: Decision) -> str:
    """What follows the numbers: why it fails, what is missing, how the samples hang together."""
    parts = []
    if decision.failing_windows:
        parts.append("two consecutive windows fail")
    if decision.state is State.INVALID:
        parts.append(
            f"the receive stamps cannot tell {decision.low.word} from {decision.high.word}: "
            "give the load more workers"
        )
    if decision.effect > 1.05:
        parts.append(f"bursts: {significant(decision.effect)} samples count as one")
    total = decision.total
    if (
        decision.state is State.INCONCLUSIVE
        and total.n
        and total.fail_low > objective.allowed_share * total.n
    ):
        parts.append("more than is allowed, but in so few bursts that a longer segment must decide")
    elif decision.state is State.INCONCLUSIVE and decision.needs_more is not None:
        more = decision.needs_more
        parts.append(f"needs {number(more)} more {noun(objective, more)} with no further exceedance")
    return "".join(f"; {part}" for part in parts)
