"""Objectives about a share: of the cohort (error_rate, completeness, goodput), of the gaps (stalls, burstiness).

The same exact rule as for percentiles; the allowed share is the limit (``error_rate <= 1%``) or what
it leaves (``completeness >= 99%``). A limit of exactly 0 % (or 100 %) is about what was seen: one
bad request fails, none passes, and the sentence says how many could hide.
"""

from __future__ import annotations

from chaosflow.core.slo import Objective, SegmentVerdict, State
from chaosflow.core.slots import Blocks
from chaosflow.sla.binomial import clopper_pearson
from chaosflow.sla.exact import Decision, decide
from chaosflow.sla.quantile import tail_of_sentence
from chaosflow.sla.spans import Seconds, tumbling
from chaosflow.sla.words import noun, number, of_total, percent, seconds, share_of

_BAD = {
    "error_rate": "failed",
    "completeness": "ended incomplete",
    "goodput": "missed an objective or failed",
}


def judge_share(
    objective: Objective,
    segment: str,
    blocks: Blocks,
    *,
    alpha: float,
    span: Seconds | None = None,
    window_s: float = 60.0,
) -> SegmentVerdict:
    """One share in one segment; cells count the bad requests of the cohort whatever the direction."""
    p0 = round(objective.allowed_share, 12)
    decision = decide(blocks, p0, alpha, tumbling(blocks, span, window_s))
    total = decision.total
    bad, (low, high) = None, (None, None)
    if total.n:
        bad = total.fail_high / total.n
        low, high = clopper_pearson(
            int(total.fail_high / decision.effect), max(1, int(total.n / decision.effect))
        )
    if bad is not None and low is not None and high is not None and not objective.lower_is_better:
        bad, low, high = 1 - bad, 1 - high, 1 - low
    return SegmentVerdict(
        segment=segment,
        state=decision.state,
        sentence=_sentence(objective, decision, p0),
        n=total.n,
        k_low=total.fail_low,
        k_high=total.fail_high,
        allowed_share=p0,
        design_effect=decision.effect,
        limit=objective.limit,
        observed=bad,
        low=low,
        high=high,
        needs_more=decision.needs_more,
    )


def _bad(objective: Objective) -> str:
    """What was wrong with a bad one."""
    if objective.metric == "stalls":
        return f"lasted longer than {seconds(objective.threshold_s)}"
    if objective.metric == "burstiness":
        return f"were shorter than {seconds(objective.threshold_s)}"
    return _BAD.get(objective.metric, "were bad")


def _sentence(objective: Objective, decision: Decision, p0: float) -> str:
    total = decision.total
    what = noun(objective, total.n)
    if total.n == 0:
        return f"{objective.metric}: no {what} in this segment; needs at least {number(decision.needs_more or 1)}"
    low, high = total.fail_low, total.fail_high
    text = (
        f"{of_total(low, high, total.n, what)} {_bad(objective)} "
        f"({share_of(low, high, total.n)}, {percent(p0)} allowed)"
    )
    if p0 <= 0 and decision.state is State.PASS:
        return text + f"; a true share of up to {percent(1 - 0.05 ** (1 / total.n))} could hide in so few"
    return text + tail_of_sentence(objective, decision)
