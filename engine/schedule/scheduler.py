"""Continuous batching: before every step, who computes how many tokens.

Prefill and decode are one thing, as in vLLM's V1: a sequence has tokens whose keys and values are not
computed yet (all of its prompt, or the one token it sampled last); a step computes some of them, and
whoever has none left samples a token. A preempted sequence simply has all of them to compute again.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.engine.schedule.blocks import BlockBudget
from chaosflow.engine.schedule.queue import WaitingLine
from chaosflow.engine.schedule.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Work:
    """One sequence's share of a step."""

    sequence: Sequence
    tokens: int
    """Tokens to compute."""
    context: int
    """Tokens already in the cache, which attention reads."""
    samples: bool
    """Whether the last known token is among them, so that a new one comes out."""


Batch = list[Work]


class Scheduler:
    """Holds the waiting and the running sequences."""

    def __init__(self, budget: BlockBudget, *, max_batch: int, max_step_tokens: int = 2048) -> None:
        self.budget, self.max_batch, self.max_step_tokens = budget, max_batch, max_step_tokens
        self.waiting = WaitingLine()
        self.running: list[Sequence] = []
        self.preemptions = 0

    def add(self, sequence: Sequence) -> None:
        self.waiting.push(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, finished or cancelled; its slot and blocks are free when this returns."""
        if sequence.finished:
            return
        sequence.finished = True
        if sequence in self.running:
            self.running.remove(sequence)
            self.budget.free(sequence)
        else:
            self.waiting.cancelled()

    def next_batch(self) -> Batch:
        """The next step's work; empty when there is nothing to do or every client lags."""
        batch: Batch = []
        preemptions = self.preemptions
        left = self._continue_running(batch)
        if self.preemptions == preemptions:  # else the one just preempted would come straight back
            self._admit(batch, left)
        return batch

    def _continue_running(self, batch: Batch) -> int:
        left, index = self.max_step_tokens, 0
        while index < len(self.running) and left > 0:
            sequence = self.running[index]
            index += 1
            if sequence.sink.full:
                continue  # backpressure: it keeps its slot and waits for its client
            tokens = min(sequence.pending, left)
            if not self._make_room(sequence, sequence.computed + tokens):
                break
            batch.append(_work(sequence, tokens))
            left -= tokens
        return left

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Blocks for ``tokens`` in all, if need be those of whoever was admitted last."""
        while not self.budget.can_grow(sequence, tokens):
            victim = self.running.pop()
            self.budget.free(victim)
            self.waiting.push(victim)
            self.preemptions += 1
            if victim is sequence:
                return False
        self.budget.grow(sequence, tokens)
        return True

    def _admit(self, batch: Batch, left: int) -> None:
        while left > 0 and len(self.running) < self.max_batch:
            sequence = self.waiting.first()
            if sequence is None or not self.budget.can_grow(sequence, sequence.length + 1):
                return
            self.waiting.pop()
            self.running.append(sequence)
            tokens = min(sequence.pending, left)
            self.budget.grow(sequence, sequence.length + 1)
            batch.append(_work(sequence, tokens))
            left -= tokens


def _work(sequence: Sequence, tokens: int) -> Work:
    return Work(sequence, tokens, sequence.computed, tokens == sequence.pending)
