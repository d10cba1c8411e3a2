"""How long request j and its answer are, and where the plan's caps end the load."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from chaosflow.core.loadplan import ClosedArrival, FixedLength, LoadPlan, TraceArrival
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
            row, arrival = self._trace[planned.row], plan.arrival
            return Turn(
                min(row.prompt_tokens, arrival.max_prompt_tokens or row.prompt_tokens),
                min(row.output_tokens, arrival.max_output_tokens or row.output_tokens),
            )
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


def request_cap(plan: LoadPlan, seed: int, sizes: Sizes, trace: tuple[TraceRow, ...] = ()) -> int:
    """How many requests the plan allows in all (``NO_CAP`` where it sets no cap).

    ``max_tokens`` counts prompt and output tokens asked for.
    """
    cap = NO_CAP if plan.max_requests is None else plan.max_requests
    if plan.max_tokens is None:
        return cap
    if _all_alike(plan):
        return min(cap, plan.max_tokens // max(1, sizes.tokens(Planned(0))))
    allowed, spent = 0, 0
    for planned in _every(plan, seed, trace):
        spent += sizes.tokens(planned)
        if spent > plan.max_tokens or allowed >= cap:
            break
        allowed += 1
    return allowed


def _all_alike(plan: LoadPlan) -> bool:
    lengths = (plan.prompt_length, plan.output_length)
    special = plan.sessions or plan.prompts_file or isinstance(plan.arrival, TraceArrival)
    return not special and all(isinstance(length, FixedLength) for length in lengths)


def _every(plan: LoadPlan, seed: int, trace: tuple[TraceRow, ...]) -> Iterator[Planned]:
    if isinstance(plan.arrival, ClosedArrival):
        return closed_schedule(plan)
    return open_schedule(plan, seed, trace)
