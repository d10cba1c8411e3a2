"""The worst requests of a run, each with its token timeline: a bounded number, however long the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_WORST = 10
"""Kept of the failed requests, and as many of the slow ones."""


@dataclass(frozen=True, slots=True)
class BadRequest:
    """One request that is among the worst so far, with its token timeline; µs from its scheduled time."""

    index: int
    sched_us: int
    """From the start of the load."""
    segment: str
    failed: bool
    outcome: str
    status: int
    error: str
    tokens: int
    fire_us: int
    headers_us: int | None
    end_us: int
    """How bad it is: the longer the worse."""
    max_gap_us: int | None
    event_us: list[int]


def keep_worst(requests: Iterable[BadRequest]) -> list[BadRequest]:
    """The ten worst that failed and the ten slowest that did not; worst first, the same in any order of merging."""
    kept: list[BadRequest] = []
    ordered = sorted(requests, key=lambda r: (-r.end_us, r.index))
    for failed in (True, False):
        kept += [r for r in ordered if r.failed is failed][:MOST_WORST]
    return kept
