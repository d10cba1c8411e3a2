"""When a request is counted for an objective, and on which side of the limit. Pure functions.

A request is counted when it completes or first exceeds the limit, whichever is earlier, so that a hang is
seen at the limit. Failures count as over the limit; a cancelled request that had not exceeded is censored.
Of a relative objective's two limits (fail, pass) the higher decides the moment.
"""

from __future__ import annotations

from typing import NamedTuple

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.slots import Cell

Limits = tuple[float, float]
"""(fail, pass) in ns; equal where the objective is absolute."""


class Count(NamedTuple):
    """One request, counted at a moment, with its exceedances as Cell has them."""

    at_ns: int
    fail_low: int
    fail_high: int
    pass_low: int
    pass_high: int

    def add_to(self, cell: Cell) -> None:
        cell.n += 1
        cell.fail_low += self.fail_low
        cell.fail_high += self.fail_high
        cell.pass_low += self.pass_low
        cell.pass_high += self.pass_high


def bad_at(at_ns: int) -> Count:
    return Count(at_ns, 1, 1, 1, 1)


def good_at(at_ns: int) -> Count:
    return Count(at_ns, 0, 0, 0, 0)


def exceeded_at(metric: str, record: RequestRecord, limit_ns: float, until_ns: int) -> int | None:
    """The moment at which the request was seen to exceed, while still under way; None = not (yet)."""
    if metric not in ("ttft", "e2e"):
        return None
    moment = record.sched_ns + round(limit_ns)
    if moment > until_ns or (record.end_ns is not None and record.end_ns <= moment):
        return None
    if metric == "ttft" and record.event_ns and record.event_low_ns[0] <= moment:
        return None
    return moment


def value_of(metric: str, record: RequestRecord) -> tuple[float, float] | None:
    """(earliest, latest) value in ns of a request that ended well; None = it has no such value."""
    if metric == "e2e":
        return None if record.e2e_ns is None else (record.e2e_ns, record.e2e_ns)
    if not record.event_ns:
        return None
    if metric == "ttft":
        return record.event_low_ns[0] - record.sched_ns, record.event_ns[0] - record.sched_ns
    tokens = record.tokens if record.tokens_by_usage else len(record.event_ns)
    if tokens < 2 or len(record.event_ns) < 2 or record.event_ns[-1] <= record.event_low_ns[0]:
        return None  # all at once is no time per token, and 0 would pass every limit
    low = max(0, record.event_low_ns[-1] - record.event_ns[0])
    return low / (tokens - 1), (record.event_ns[-1] - record.event_low_ns[0]) / (tokens - 1)


def judge(metric: str, record: RequestRecord, limits: Limits, until_ns: int) -> Count | None:
    """How the request counts for one latency objective by ``until_ns``; None = not (yet) at all."""
    fail_ns, pass_ns = limits
    early = exceeded_at(metric, record, max(limits), until_ns)
    if early is not None:
        return bad_at(early)
    end_ns = record.end_ns
    if end_ns is None or end_ns > until_ns:
        return None
    if record.outcome is Outcome.CANCELLED and metric != "ttft":
        return None  # its first token, if it came, is known all the same
    if record.outcome.failed:
        return bad_at(end_ns)
    value = value_of(metric, record)
    if value is None:
        return None
    low, high = value
    return Count(end_ns, low > fail_ns, high > fail_ns, low > pass_ns, high > pass_ns)


def worst_of(counts: list[Count]) -> Count | None:
    """Goodput: bad as soon as one objective is certainly exceeded, good when all are met."""
    if not counts:
        return None
    broken = [c.at_ns for c in counts if c.fail_low and c.pass_low]
    if broken:
        return bad_at(min(broken))
    return Count(
        max(c.at_ns for c in counts),
        *(max(c[place] for c in counts) for place in range(1, 5)),
    )
