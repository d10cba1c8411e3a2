"""The engine's heart: schedule, step, deliver, for as long as it runs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from chaosflow.core.errors import ChaosflowError
from chaosflow.engine.infer.backend import STEP_PARTS, Backend, StepCost, StepResult
from chaosflow.engine.schedule.blocks import BlockBudget
from chaosflow.engine.schedule.scheduler import Batch, Scheduler
from chaosflow.engine.schedule.sequence import Sequence, Sink

MAX_WAITING = 4096


class QueueFull(ChaosflowError):
    """More requests are waiting than the engine is willing to hold."""

    def __init__(self, waiting: int) -> None:
        super().__init__(
            "engine", f"{waiting} requests are waiting already", "send fewer, or try again later"
        )


@dataclass(slots=True)
class Stats:
    """Counters since the start; they never fall."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    steps: int = 0
    step_part_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEP_PARTS, 0.0))
    finished: dict[str, int] = field(default_factory=lambda: {"length": 0, "stop": 0})
    cancelled: int = 0
    rejected: int = 0
    last_token_ns: int = 0
    """Monotonic; 0 before the first token."""

    def add_cost(self, cost: StepCost) -> None:
        self.steps += 1
        parts = self.step_part_s
        parts["embedding"] += cost.embedding_s
        parts["attention"] += cost.attention_s
        parts["projection"] += cost.projection_s
        parts["io"] += cost.io_s
        parts["scheduling"] += cost.scheduling_s


class Engine:
    """One backend, one scheduler, one step at a time."""

    def __init__(self, backend: Backend, *, max_batch: int, max_waiting: int = MAX_WAITING) -> None:
        self.backend, self.max_waiting = backend, max_waiting
        self.scheduler = Scheduler(BlockBudget(backend.kv_blocks), max_batch=max_batch)
        self.stats = Stats()
        self._work = asyncio.Event()
        self._numbers = 0

    def submit(
        self, sink: Sink, *, prompt_tokens: int, max_tokens: int, seed: int, priority: int = 0, may_end: bool
    ) -> Sequence:
        """Put a request in line. Raises QueueFull; does not wait."""
        if len(self.scheduler.waiting) >= self.max_waiting:
            self.stats.rejected += 1
            raise QueueFull(len(self.scheduler.waiting))
        self._numbers += 1
        sequence = Sequence(
            self._numbers, prompt_tokens, max_tokens, seed, sink, time.monotonic_ns(), priority, may_end
        )
        self.stats.prompt_tokens += prompt_tokens
        self.scheduler.add(sequence)
        self._work.set()
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """The client is gone: slot and blocks are free when this returns. Harmless when finished."""
        if not sequence.finished:
            self.scheduler.remove(sequence)
            self.stats.cancelled += 1
            self._work.set()

    def stop(self, sequence: Sequence) -> None:
        """A stop string was met: finish it with reason ``stop``. Harmless when finished."""
        self._finish(sequence, "stop")

    def wake(self) -> None:
        """A client that lagged has caught up."""
        self._work.set()

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            self._work.clear()
            batch = self.scheduler.next_batch()
            if not batch:
                self.backend.idle()
                await self._work.wait()
                continue
            self._deliver(batch, await self.backend.step(batch))

    def _deliver(self, batch: Batch, result: StepResult) -> None:
        self.stats.add_cost(result.cost)
        for work in batch:
            if not work.sequence.finished:  # cancelled while the step ran
                work.sequence.computed += work.tokens
        delivered = 0
        for sequence, sampled in result.sampled:
            if sequence.finished:
                continue
            sequence.generated += 1
            delivered += 1
            sequence.sink.push(sampled.text)  # may finish it by a stop string, through ``stop``
            if sampled.end:
                self.stop(sequence)
            elif sequence.generated >= sequence.max_tokens:
                self._finish(sequence, "length")
        if delivered:
            self.stats.generated_tokens += delivered
            self.stats.last_token_ns = time.monotonic_ns()

    def _finish(self, sequence: Sequence, reason: str) -> None:
        if sequence.finished:
            return
        self.scheduler.remove(sequence)
        self.stats.finished[reason] += 1
        sequence.sink.finish(reason)
