"""The waiting line: first come, first served, with priorities that ageing overcomes."""

from __future__ import annotations

import heapq

from chaosflow.engine.schedule.sequence import Sequence

HEAD_START_NS = 2_000_000_000
"""What one level of priority is worth in waiting time, so that nobody starves."""


class WaitingLine:
    """Ordered by arrival + priority x head start: a fixed key, since all waiting ones age alike."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sequence]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, sequence: Sequence) -> None:
        """Add one; a preempted one comes back to its old place."""
        key = sequence.arrived_ns + sequence.priority * HEAD_START_NS
        heapq.heappush(self._heap, (key, sequence.number, sequence))
        self._size += 1

    def first(self) -> Sequence | None:
        """The one to be admitted next, left in line."""
        while self._heap and self._heap[0][2].finished:
            heapq.heappop(self._heap)  # cancelled while it waited
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Sequence:
        """Take out the one that ``first`` showed."""
        self._size -= 1
        return heapq.heappop(self._heap)[2]

    def cancelled(self) -> None:
        """One in the line was marked ``finished``."""
        self._size -= 1
