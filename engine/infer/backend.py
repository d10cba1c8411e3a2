"""The ``step`` seam: what a backend must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from chaosflow.engine.schedule.scheduler import Batch
from chaosflow.engine.schedule.sequence import Sequence


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one step took, in its five parts, seconds."""

    embedding_s: float
    attention_s: float
    projection_s: float
    io_s: float
    scheduling_s: float

    @property
    def total_s(self) -> float:
        return self.embedding_s + self.attention_s + self.projection_s + self.io_s + self.scheduling_s


STEP_PARTS = ("embedding", "attention", "projection", "io", "scheduling")


@dataclass(frozen=True, slots=True)
class Sampled:
    """One new token as text; ``end`` when the model chose to stop with it."""

    text: str
    end: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    sampled: list[tuple[Sequence, Sampled]]
    """One entry for every work of the batch with ``samples``."""
    cost: StepCost


class Backend(Protocol):
    """Runs steps, one at a time."""

    name: ClassVar[str]
    kv_blocks: int
    """Blocks of the cache that fit beside the weights."""
    context_tokens: int
    """Longest sequence, prompt and output."""

    async def step(self, batch: Batch) -> StepResult:
        """Compute a non-empty batch; returns when its time is over. Does not change the sequences."""

    def idle(self) -> None:
        """There is nothing to compute just now."""

    def close(self) -> None: ...
