"""How long request j and its answer are, and where the plan's caps end the load."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from chaosflow.core.arrival import ClosedArrival, TraceArrival
from chaosflow.core.loadplan import FixedLength, LoadPlan
from chaosflow.core.tracefile import TraceRow
from chaosflow.load.arrivals import Planned, closed_schedule, open_schedule
from chaosflow.load.content import OwnPrompt, draw

NO_CAP = 1 << 62


class Turn(NamedTuple):
    """Lengths of one question and its answer, in tokens."""

    prompt: int
    output: int


class Sizes:
    """Every length of the load, from the seed alone."""

    def __init__(
        self, plan: LoadPlan, seed: int, trace: tuple[TraceRow, ...], own: list[OwnPrompt] | None
    ) -> None:
        self._plan, self._seed, self._trace, self._own = plan, seed, trace, own

    def own_prompt(self, planned: Planned) -> OwnPrompt | None:
        return self._own[planned.index % len(self._own)] if self._own else None

    def turn(self, planned: Planned, turn: int | None = None) -> Turn:
        """Lengths of what is newly asked in a request, or in an earlier turn of its session."""
        plan = self._plan
        if planned.row >= 0 and isinstance(plan.arrival, TraceArrival):
            return Turn(*plan.arrival.lengths(self._trace[planned.row]))
        if isinstance(plan.prompt_length, FixedLength) and isinstance(plan.output_length, FixedLength):
            lengths = Turn(plan.prompt_length.tokens, plan.output_length.tokens)
        else:
            which = planned.turn if turn is None else turn
            key = f"{planned.session}:{which}" if planned.session >= 0 else f"{planned.index}"
            rng = random.Random(f"lengths:{self._seed}:{key}")
            lengths = Turn(draw(plan.prompt_length, rng), draw(plan.output_length, rng))
        own = self.own_prompt(planned)
        return lengths._replace(output=own.output_tokens) if own and own.output_tokens else lengths

    def tokens(self, planned: Planned) -> int:
        """Prompt and output tokens of a request together, as far as they are planned."""
        now = self.turn(planned)
        earlier = [self.turn(planned, turn) for turn in range(planned.turn)]
        return sum(now) + sum(sum(turn) for turn in earlier) + self._plan.shared_prefix_tokens


class Cap:
    """Where ``max_requests`` and ``max_tokens`` end the load.

    Tokens, of prompt and answer as asked for, are added up by j as far as it is asked: the cap may lie far beyond
    what the run will send.
    """

    def __init__(self, plan: LoadPlan, seed: int, sizes: Sizes, trace: tuple[TraceRow, ...] = ()) -> None:
        self._sizes = sizes
        self._requests = NO_CAP if plan.max_requests is None else plan.max_requests
        self._tokens_left: int | None = plan.max_tokens
        self._counted = 0
        if plan.max_tokens is not None and _all_alike(plan):
            self._requests = min(self._requests, plan.max_tokens // max(1, sizes.tokens(Planned(0))))
            self._tokens_left = None
        self._every = _every(plan, seed, trace)

    def allows(self, index: int) -> bool:
        """Whether request ``index`` (j) may be sent."""
        while self._tokens_left is not None and self._counted <= index < self._requests:
            planned = next(self._every, None)
            if planned is None:
                break
            self._tokens_left -= self._sizes.tokens(planned)
            if self._tokens_left < 0:
                self._requests = self._counted
            self._counted += 1
        return index < self._requests


def _all_alike(plan: LoadPlan) -> bool:
    lengths = (plan.prompt_length, plan.output_length)
    special = plan.sessions or plan.prompts_file or isinstance(plan.arrival, TraceArrival)
    return not special and all(isinstance(length, FixedLength) for length in lengths)


def _every(plan: LoadPlan, seed: int, trace: tuple[TraceRow, ...]) -> Iterator[Planned]:
    if isinstance(plan.arrival, ClosedArrival):
        return closed_schedule(plan)
    return open_schedule(plan, seed, trace)
