"""The worst requests: bounded, the same whatever the order, with their token timelines."""

from __future__ import annotations

import random
from array import array

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.slots import CellBatch, CellStore
from chaosflow.core.worst import keep_worst
from chaosflow.load.worst import MOST_EVENTS, Worst, thinned

_MS = 1_000_000


def _record(index: int, length_ms: int, outcome: Outcome = Outcome.OK) -> RequestRecord:
    sched = index * 10 * _MS
    events = array("q", [sched + length_ms * _MS // 2, sched + length_ms * _MS - 1])
    return RequestRecord(
        index,
        sched,
        sched,
        end_ns=sched + length_ms * _MS,
        event_ns=events,
        event_low_ns=events,
        tokens=2,
        outcome=outcome,
    )


def _offer_all(records: list[RequestRecord], workers: int) -> CellStore:
    """As in a run: each worker its share, a batch every so often, merged by one store."""
    heaps = [Worst(0) for _ in range(workers)]
    store, seqs = CellStore(), [0] * workers
    for place, record in enumerate(records):
        heaps[record.index % workers].offer(record, ("baseline",))
        if place % 17 == 16 or place == len(records) - 1:
            for worker, heap in enumerate(heaps):
                seqs[worker] += 1
                batch = CellBatch(str(worker), seqs[worker], 0)
                batch.worst = heap.take()
                store.merge(CellBatch.from_wire(batch.to_wire()))
    return store


def test_one_worker_and_four_keep_the_same_ten_of_each_kind() -> None:
    rng = random.Random(7)
    records = [
        _record(i, rng.randrange(20, 5000), Outcome.RESET if rng.random() < 0.2 else Outcome.OK)
        for i in range(500)
    ]
    one = _offer_all(records, 1).worst
    rng.shuffle(records)
    four = _offer_all(records, 4).worst
    assert one == four
    expected = sorted(
        (r for r in records if r.outcome is Outcome.OK), key=lambda r: (-(r.e2e_ns or 0), r.index)
    )
    assert [w.index for w in one if not w.failed] == [r.index for r in expected[:10]]
    assert sum(w.failed for w in one) == 10


def test_memory_does_not_grow_with_the_number_of_requests() -> None:
    heap = Worst(0)
    for i in range(5000):
        heap.offer(_record(i, i % 997 + 1), ("baseline",))
    assert len(heap.take()) <= 20


def test_warm_up_and_unfinished_requests_are_left_out() -> None:
    heap = Worst(0)
    heap.offer(_record(1, 900), ("warmup",))
    heap.offer(RequestRecord(2, 0), ("baseline",))
    assert heap.take() == []


def test_long_timeline_keeps_both_sides_of_its_longest_gap() -> None:
    events = list(range(0, 20_000_000, 10_000))
    stalled = [*events[:1500], *(t + 3_000_000 for t in events[1500:])]
    kept = thinned(stalled)
    assert len(kept) <= MOST_EVENTS
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (stalled[0], stalled[-1])
    assert stalled[1499] in kept
    assert stalled[1500] in kept


def test_worst_is_worst_first_and_ties_go_to_the_earlier_request() -> None:
    heap = Worst(0)
    for index in (3, 1, 2):
        heap.offer(_record(index, 100), ("baseline",))
    assert [w.index for w in keep_worst(heap.take())] == [1, 2, 3]
