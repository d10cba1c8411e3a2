"""The worst requests a worker has seen, in a bounded heap: what the report shows token by token."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from chaosflow.core.sample import RequestRecord
from chaosflow.core.worst import MOST_WORST, BadRequest

MOST_EVENTS = 400
"""Of one timeline; a longer one keeps what surrounds its longest gaps."""


class Worst:
    """The longest from schedule to end, of those that failed and of those that did not. The warm-up is left out."""

    def __init__(self, t0_ns: int) -> None:
        self._t0_ns = t0_ns
        self._heaps: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        """failed -> (length in ns, minus index), the least bad first."""
        self._fresh: dict[int, BadRequest] = {}

    def offer(self, record: RequestRecord, segments: tuple[str, ...]) -> None:
        """Look at a request that ended. Costs one comparison for nearly all of them."""
        length_ns, failed = record.e2e_ns, record.outcome.failed
        if length_ns is None or segments == ("warmup",):
            return
        heap, entry = self._heaps[failed], (length_ns, -record.index)
        if len(heap) < MOST_WORST:
            heapq.heappush(heap, entry)
        elif entry > heap[0]:
            _, gone = heapq.heapreplace(heap, entry)
            self._fresh.pop(-gone, None)
        else:
            return
        self._fresh[record.index] = self._told(record, length_ns, ",".join(segments))

    def take(self) -> list[BadRequest]:
        """Those that came in since the last call and are still among the worst."""
        fresh, self._fresh = self._fresh, {}
        return list(fresh.values())

    def _told(self, record: RequestRecord, length_ns: int, segment: str) -> BadRequest:
        def us(at_ns: int) -> int:
            return (at_ns - record.sched_ns) // 1000

        events = [us(t) for t in record.event_ns]
        return BadRequest(
            index=record.index,
            sched_us=(record.sched_ns - self._t0_ns) // 1000,
            segment=segment,
            failed=record.outcome.failed,
            outcome=record.outcome.value,
            status=record.status,
            error=record.error,
            tokens=record.tokens,
            fire_us=us(record.fire_ns),
            headers_us=None if record.headers_ns is None else us(record.headers_ns),
            end_us=length_ns // 1000,
            max_gap_us=max((b - a for a, b in pairwise(events)), default=None),
            event_us=thinned(events),
        )


def thinned(events: Sequence[int]) -> list[int]:
    """At most 400 of ascending moments: both sides of the 100 longest gaps, the first, the last, an even choice."""
    count = len(events)
    if count <= MOST_EVENTS:
        return list(events)
    longest = sorted(range(1, count), key=lambda i: events[i - 1] - events[i])[:100]
    kept = {0, count - 1, *longest, *(i - 1 for i in longest)}
    free = MOST_EVENTS - len(kept)
    kept |= {i * count // free for i in range(free)}
    return [events[i] for i in sorted(kept)]
