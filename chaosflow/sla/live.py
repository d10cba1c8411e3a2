"""Cheap answers while the run goes on: how the objectives stand, and whether a rule stops the run.

The cost follows the seconds of the segment in progress, not the length of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.segments import Span
from chaosflow.core.slo import METRICS, AbortRule, Kind, State
from chaosflow.core.slots import Blocks, CellStore
from chaosflow.sla.budget import BUDGET_KINDS
from chaosflow.sla.evidence import Evidence
from chaosflow.sla.exact import decide
from chaosflow.sla.words import number, percent

MIN_SAMPLES = 10
"""An abort rule never acts on less."""
_SLICES = 5
_LATE_S = 60


def objective_states(evidence: Evidence) -> list[tuple[State | None, str]]:
    """How each objective stands where it was tested last: (state, short note); not yet a verdict.

    That is the segment in progress, or the last one that the objective holds for. None: no sample
    yet, or (drift, recovery) nothing that can be told before the end.
    """
    reached = _reached(evidence)
    alpha = evidence.alpha()
    return [_state(evidence, i, reached, alpha) for i in range(len(evidence.objectives))]


def _reached(evidence: Evidence) -> list[Span]:
    """The segments so far, the one in progress first; of two active faults the one begun last."""
    spans = [s for s in evidence.segments.spans() if s.kind != "edge"]
    return sorted(spans, key=_newness, reverse=True)


def _newness(span: Span) -> tuple[bool, bool, int]:
    going_on = span.end_ns is None
    return going_on, going_on and span.kind == "fault", span.begin_ns


def _state(evidence: Evidence, index: int, reached: Sequence[Span], alpha: float) -> tuple[State | None, str]:
    objective = evidence.objectives[index]
    if objective.kind not in BUDGET_KINDS:
        return None, "told at the end"
    span = next((s for s in reached if evidence.holds_for(objective, s.name)), None)
    if span is None:
        return None, ""
    decision = decide(_blocks(evidence, span, index), objective.allowed_share, alpha)
    n, k = decision.total.n, decision.total.fail_high
    if n == 0:
        return None, f"{span.name}: no samples yet"
    note = f"{span.name}: {percent(k / n)} of {number(n)}, {percent(objective.allowed_share)} allowed"
    if decision.state is State.INCONCLUSIVE and decision.needs_more:
        note += f"; {number(decision.needs_more)} more needed"
    return decision.state, note


def _blocks(evidence: Evidence, span: Span, index: int) -> Blocks:
    """The segment's blocks up to now.

    A request may end after its segment does, so what follows a closed one is looked at too.
    """
    newest = max(evidence.store.watermarks.values(), default=span.begin_ns)
    end_ns = newest if span.end_ns is None else min(newest, span.end_ns + _LATE_S * NS_PER_S)
    first, last = ((at - evidence.t0_ns) // NS_PER_S for at in (span.begin_ns, end_ns))
    blocks = evidence.store.blocks(span.name, index)
    return blocks.part(slice(*np.searchsorted(blocks.second, [first, last + 1])))


def aborts(rules: Sequence[AbortRule], store: CellStore, last_second: int) -> AbortRule | None:
    """The first rule whose condition held for its whole span, the seconds up to ``last_second``.

    A share must be exceeded in every fifth of the span (a burst is not "for 10s"), a percentile over
    the span as a whole, failures counting as slow. Fewer than 10 samples (1 / (1 - q) for a
    percentile) decide nothing. ``last_second`` is the newest one that no batch can change any more.
    """
    return next((rule for rule in rules if _holds(rule, store, last_second)), None)


def _holds(rule: AbortRule, store: CellStore, last_second: int) -> bool:
    length = max(1, math.ceil(rule.for_s))
    first = last_second - length + 1
    if first < 0:
        return False
    if METRICS[rule.metric] is Kind.SHARE:
        return _share_holds(rule, store, range(first, last_second + 1))
    return _quantile_holds(rule, store, range(first, last_second + 1))


def _share_holds(rule: AbortRule, store: CellStore, span: range) -> bool:
    parts = min(_SLICES, len(span))
    edges = [span.start + round(i * len(span) / parts) for i in range(parts + 1)]
    total = 0
    for begin, end in pairwise(edges):
        count = store.counts.between(begin, end, "*")
        resolved, failed = count.resolved, count.failed
        if resolved == 0 or failed <= rule.limit * resolved:
            return False
        total += resolved
    return total >= MIN_SAMPLES


def _quantile_holds(rule: AbortRule, store: CellStore, span: range) -> bool:
    histogram = store.window(rule.metric, span)
    failed = 0
    if METRICS[rule.metric] is Kind.REQUEST_QUANTILE:
        failed = store.counts.between(span.start, span.stop, "*").failed
    n = histogram.total + failed
    if n < max(MIN_SAMPLES, math.ceil(1 / (1 - rule.q) - 1e-9)):
        return False
    value_ns = histogram.rank_ns(max(1, math.ceil(rule.q * n - 1e-9)))
    return value_ns is None or value_ns > rule.limit * 1e9
