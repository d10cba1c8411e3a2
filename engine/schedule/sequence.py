"""One request inside the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Sink(Protocol):
    """Where a sequence's tokens go; never blocks the step loop."""

    @property
    def full(self) -> bool:
        """True while the client lags so far behind that no further token may be made for it."""

    def push(self, text: str) -> None: ...

    def finish(self, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class Sequence:
    """A prompt and what has been generated for it. Token counts throughout."""

    number: int
    """Order of arrival, from 1."""
    prompt_tokens: int
    max_tokens: int
    seed: int
    sink: Sink
    arrived_ns: int
    priority: int = 0
    """Lower goes first, as in vLLM; waiting makes up for it (queue.py)."""
    may_end: bool = False
    """Whether the backend may end it before ``max_tokens`` (no limit was asked for)."""
    computed: int = 0
    """Tokens whose keys and values are in the cache."""
    generated: int = 0
    blocks: int = 0
    finished: bool = False

    @property
    def length(self) -> int:
        """All tokens known so far, prompt and generated."""
        return self.prompt_tokens + self.generated

    @property
    def pending(self) -> int:
        """Tokens still to be computed before the next one can be sampled: 1 while decoding."""
        return self.prompt_tokens + self.generated - self.computed
