"""What Locust sends: arrivals, lengths, conversations, limits. Typed; only the totals of a trace read its file."""

from __future__ import annotations

import math
import os
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from chaosflow.core.arrival import Arrival, ClosedArrival, TraceArrival
from chaosflow.core.fields import Model, Seconds, Share
from chaosflow.core.tracefile import MAX_TOKENS

_LONGEST_SOCKET_PATH = 107
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, token
_OUR_HEADERS = ("content-length", "transfer-encoding", "host")


class FixedLength(Model):
    kind: Literal["fixed"]
    tokens: int = Field(ge=1, le=MAX_TOKENS)

    @property
    def mean_tokens(self) -> float:
        return self.tokens

    @model_serializer
    def _as_number(self) -> int:
        return self.tokens


class UniformLength(Model):
    kind: Literal["uniform"]
    min: int = Field(ge=1, le=MAX_TOKENS)
    max: int = Field(ge=1, le=MAX_TOKENS)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    @property
    def mean_tokens(self) -> float:
        return (self.min + self.max) / 2


class _SpreadLength(Model):
    mean: float = Field(ge=1, le=MAX_TOKENS)
    sd: float = Field(ge=0)
    min: int = Field(1, ge=1)
    max: int | None = Field(None, ge=1)
    """What falls outside is set to the bound."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        top = self.max if self.max is not None else float("inf")
        if not self.min <= self.mean <= top:
            raise ValueError(f"mean {self.mean:g} is not between min {self.min} and max {top:g}")
        return self

    @property
    def mean_tokens(self) -> float:
        return self.mean


class NormalLength(_SpreadLength):
    kind: Literal["normal"]


class LognormalLength(_SpreadLength):
    """``mean`` and ``sd`` are those of the tokens, not of their logarithm."""

    kind: Literal["lognormal"]


def _fixed(value: object) -> object:
    return value if isinstance(value, dict | Model) else {"kind": "fixed", "tokens": value}


def _also_a_number(schema: dict[str, Any]) -> None:
    inner = {key: schema.pop(key) for key in list(schema) if key not in ("title", "description", "default")}
    schema["anyOf"] = [{"type": "integer", "minimum": 1}, inner]


Length = Annotated[
    FixedLength | UniformLength | NormalLength | LognormalLength,
    Field(discriminator="kind"),
    BeforeValidator(_fixed),
]
"""How many tokens: a number, or a distribution."""


class Sessions(Model):
    """Conversations: each turn sends all that was said before, so that prompts share prefixes."""

    turns: int = Field(ge=2, le=1000)
    think_time: Seconds = 5.0
    """Mean time from the start of one turn to that of the next (open arrivals); drawn from 0.5 to 1.5 of it."""


class ClientAborts(Model):
    """Clients that hang up in mid-stream. Such a request is ``cancelled``: neither good nor bad."""

    share: Share
    """Of all requests."""
    after_tokens: int | None = Field(None, ge=1)
    after: Seconds | None = None
    """Neither given: somewhere within the answer."""

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if self.after_tokens is not None and self.after is not None:
            raise ValueError("give only one of after_tokens, after")
        return self


class LoadPlan(Model):
    """What Locust sends."""

    arrival: Arrival
    prompt_length: Length = Field(
        FixedLength(kind="fixed", tokens=256), alias="prompt_tokens", json_schema_extra=_also_a_number
    )
    output_length: Length = Field(
        FixedLength(kind="fixed", tokens=64), alias="output_tokens", json_schema_extra=_also_a_number
    )
    shared_prefix_tokens: int = Field(0, ge=0)
    """The same text before every prompt: a system prompt."""
    prompts_file: str | None = None
    """JSON lines with ``prompt`` or ``messages``, and perhaps ``output_tokens`` and ``deadline_s``; used in turn."""
    tokenizer: str | None = None
    """A ``tokenizer.json``: prompts of exact length, and tokens counted where the server sends no usage."""
    sessions: Sessions | None = None
    aborts: ClientAborts | None = None
    endpoint: Literal["chat", "completions"] = "chat"
    ignore_eos: bool = False
    """Ask for all output tokens; an answer that is shorter is then not complete."""
    workers: int = Field(1, ge=0, le=64)
    """Locust worker processes on this machine."""
    remote_workers: int = Field(0, ge=0, le=64)
    """Workers that join from other machines (``chaosflow worker --master HOST``)."""
    listen: str = Field("", pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\[\]]*)(:\d{1,5})?$")
    """Where they find this one: ``ADDRESS:PORT``, default port 5557."""
    deadline: Seconds = 60.0
    """A request that takes longer has failed."""
    connect_timeout: Seconds = 10.0
    idle_timeout: Seconds | None = None
    """A stream that is silent for so long has failed; default: only the deadline counts."""
    unix_socket: str | None = None
    """Connect here instead of to the target's host and port."""
    max_in_flight: int = Field(4096, ge=1)
    """Per worker; reaching it makes the run invalid, never a silent cap."""
    max_requests: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    headers: dict[str, str] = Field({})
    extra_body: dict[str, Any] = Field({})
    """Further fields of the request body, e.g. ``{temperature: 0}``."""
    locustfile: str | None = None
    """A Locust file whose StreamingUsers are the users of a closed load."""
    web_ui_port: int | None = Field(None, ge=1, le=65535)
    """Locust's own web page, on this machine only; for looking at."""

    @property
    def prompt_tokens(self) -> int:
        """Mean length of what is newly asked, in tokens. A trace's file is read; raises UsageError."""
        if isinstance(self.arrival, TraceArrival):
            return round(self.arrival.mean_lengths()[0])
        return round(self.prompt_length.mean_tokens)

    @property
    def output_tokens(self) -> int:
        """Mean length of an answer, in tokens. A trace's file is read; raises UsageError."""
        if isinstance(self.arrival, TraceArrival):
            return round(self.arrival.mean_lengths()[1])
        return round(self.output_length.mean_tokens)

    @property
    def tokens_per_request(self) -> float:
        """Mean of prompt and output tokens together, with the common prefix and a session's earlier turns."""
        new = self.prompt_tokens + self.output_tokens
        turns = self.sessions.turns if self.sessions else 1
        return self.shared_prefix_tokens + new * (turns + 1) / 2

    def expected_arrivals(self, begin_s: float, end_s: float) -> float | None:
        """Requests expected in [begin_s, end_s), in seconds from the start of the load; None for a closed loop.

        The mean of the arrival process, stages, trace and ``max_requests`` included; the drawn schedule scatters
        around it. ``max_tokens`` is left out. Reads a trace's file; raises UsageError.
        """
        begin, end = self._expected_by(begin_s), self._expected_by(end_s)
        return None if begin is None or end is None else max(0.0, end - begin)

    def _expected_by(self, at_s: float) -> float | None:
        if isinstance(self.arrival, ClosedArrival):
            return None
        if at_s <= 0:
            return 0.0
        turns = self.sessions.turns if self.sessions else 1
        think_s = self.sessions.think_time if self.sessions else 0.0
        wanted = self.arrival.wanted
        # turn t of a session comes t think times after its start; sessions began before the load did
        by_turn = (wanted(at_s - turn * think_s) - wanted(-turn * think_s) for turn in range(turns))
        return min(sum(by_turn) / turns, self.max_requests or math.inf)

    @property
    def all_workers(self) -> int:
        return self.workers + self.remote_workers

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if not self.deadline:
            raise ValueError("deadline: must be above 0, or every request fails")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or any(c in value for c in "\r\n\0"):
                raise ValueError(f"headers: {name!r} cannot be sent: a name is one word, a value one line")
            if name.lower() in _OUR_HEADERS:
                raise ValueError(f"headers: {name} is set by ChaosFlow itself")
        if _has_huge_integer(self.extra_body):
            raise ValueError("extra_body: holds an integer of more than 64 bits, which no server reads")
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.all_workers < 1:
            raise ValueError("workers and remote_workers are both 0: nobody would send anything")
        if isinstance(self.arrival, ClosedArrival):
            a_worker = -(-self.arrival.users // self.all_workers)
            if a_worker > self.max_in_flight:
                raise ValueError(
                    f"{self.arrival.users} users are {a_worker} a worker, more than max_in_flight "
                    f"({self.max_in_flight}): raise it, or the number of workers"
                )
        if (
            self.unix_socket is not None
            and not 0 < len(os.fsencode(self.unix_socket)) <= _LONGEST_SOCKET_PATH
        ):
            raise ValueError(f"unix_socket: a path of 1 to {_LONGEST_SOCKET_PATH} bytes (unix(7))")
        if self.remote_workers and not self.listen:
            raise ValueError("remote_workers needs 'listen': the address on which this machine is reached")
        if self.prompts_file and self.sessions:
            raise ValueError("give only one of prompts_file, sessions")
        if self.prompts_file and isinstance(self.arrival, TraceArrival):
            raise ValueError("a trace says how long its prompts are: remove prompts_file")
        if self.sessions and isinstance(self.arrival, TraceArrival):
            raise ValueError("a trace holds its own sessions: remove sessions")
        if self.locustfile and not isinstance(self.arrival, ClosedArrival):
            raise ValueError(
                "locustfile: its users are those of a closed load; write 'arrival: {kind: closed, …}'"
            )
        return self


def _has_huge_integer(data: object) -> bool:
    if isinstance(data, dict):
        return any(_has_huge_integer(value) for value in data.values())
    if isinstance(data, list):
        return any(_has_huge_integer(value) for value in data)
    return isinstance(data, int) and not -(2**63) <= data < 2**63
