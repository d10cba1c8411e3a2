"""Admission, batching, KV budget, preemption, backpressure."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaosflow.engine.schedule.blocks import BlockBudget
from chaosflow.engine.schedule.queue import HEAD_START_NS
from chaosflow.engine.schedule.scheduler import Batch, Scheduler
from chaosflow.engine.schedule.sequence import Sequence


@dataclass
class ListSink:
    full: bool = False
    texts: list[str] = field(default_factory=list)
    reason: str = ""

    def push(self, text: str) -> None:
        self.texts.append(text)

    def finish(self, reason: str) -> None:
        self.reason = reason


def make(number: int, prompt: int = 16, priority: int = 0, arrived_ns: int | None = None) -> Sequence:
    arrived = number if arrived_ns is None else arrived_ns
    return Sequence(number, prompt, 64, number, ListSink(), arrived, priority)


def scheduler(blocks: int = 1000, max_batch: int = 8, max_step_tokens: int = 64) -> Scheduler:
    return Scheduler(BlockBudget(blocks), max_batch=max_batch, max_step_tokens=max_step_tokens)


def run(batch: Batch) -> None:
    for work in batch:
        work.sequence.computed += work.tokens
        work.sequence.generated += work.samples


def shape(batch: Batch) -> list[tuple[int, int, bool]]:
    return [(w.sequence.number, w.tokens, w.samples) for w in batch]


def test_prefill_is_cut_to_the_step_and_decodes_ride_along() -> None:
    s = scheduler()
    s.add(make(1))
    batch = s.next_batch()
    assert shape(batch) == [(1, 16, True)]
    run(batch)
    s.add(make(2, prompt=100))
    batch = s.next_batch()
    assert shape(batch) == [(1, 1, True), (2, 63, False)]
    run(batch)
    assert shape(s.next_batch()) == [(1, 1, True), (2, 37, True)]


def test_first_come_first_served_up_to_the_batch_limit() -> None:
    s = scheduler(max_batch=2)
    for n in (1, 2, 3):
        s.add(make(n))
    assert shape(s.next_batch()) == [(1, 16, True), (2, 16, True)]
    assert len(s.waiting) == 1
    s.remove(s.running[0])
    assert [w.sequence.number for w in s.next_batch()] == [2, 3]


def test_priority_goes_first_but_waiting_makes_up_for_it() -> None:
    s = scheduler(max_batch=1)
    s.add(make(1, priority=1, arrived_ns=0))
    s.add(make(2, priority=0, arrived_ns=HEAD_START_NS - 1))
    s.add(make(3, priority=0, arrived_ns=HEAD_START_NS + 1))
    order = []
    while batch := s.next_batch():
        order.append(batch[0].sequence.number)
        s.remove(batch[0].sequence)
    assert order == [2, 1, 3]


def test_admission_waits_for_blocks_in_order() -> None:
    s = scheduler(blocks=8)
    s.add(make(1, prompt=31))
    s.add(make(2, prompt=120))
    s.add(make(3, prompt=15))
    run(s.next_batch())
    assert len(s.waiting) == 2  # the third would fit, but may not pass the second
    s.remove(s.running[0])
    assert s.next_batch()[0].sequence.number == 2


def test_out_of_blocks_the_newest_is_preempted_and_resumes() -> None:
    s = scheduler(blocks=4)
    one, two = make(1, prompt=30), make(2, prompt=30)
    s.add(one)
    s.add(two)
    for _ in range(4):
        run(s.next_batch())
    assert s.preemptions == 1
    assert (two.blocks, two.computed, len(s.waiting)) == (0, 0, 1)
    kept = two.generated
    s.remove(one)
    batch = s.next_batch()
    assert shape(batch) == [(2, 30 + kept, True)]  # recomputes prompt and what it had said
    s.remove(two)
    assert s.budget.used == 0


def test_cancel_frees_slot_and_blocks_at_once_wherever_it_is() -> None:
    s = scheduler(max_batch=1)
    running, waiting = make(1), make(2)
    s.add(running)
    s.add(waiting)
    run(s.next_batch())
    assert s.budget.used > 0
    s.remove(waiting)
    s.remove(running)
    s.remove(running)
    assert (s.budget.used, len(s.running), len(s.waiting)) == (0, 0, 0)
    assert s.next_batch() == []


def test_a_lagging_client_is_left_out_but_keeps_its_place() -> None:
    s = scheduler()
    slow, quick = make(1), make(2)
    s.add(slow)
    s.add(quick)
    run(s.next_batch())
    assert isinstance(slow.sink, ListSink)
    slow.sink.full = True
    assert [w.sequence.number for w in s.next_batch()] == [2]
    slow.sink.full = False
    assert [w.sequence.number for w in s.next_batch()] == [1, 2]
