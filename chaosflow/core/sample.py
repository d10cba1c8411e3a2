"""All the times of one request."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended; everything but OK and CANCELLED is a failure (docs/glossary.md)."""

    OK = "ok"
    CONNECT = "connect"
    """Never connected."""
    HTTP = "http"
    """Status >= 400."""
    ERROR_EVENT = "error_event"
    """An ``error`` event after a 200."""
    TRUNCATED = "truncated"
    """Ended without ``[DONE]`` and without a finish_reason, or without a single token."""
    RESET = "reset"
    DEADLINE = "deadline"
    UNPARSEABLE = "unparseable"
    CANCELLED = "cancelled"
    """The run ended first: the request is censored, neither good nor bad."""

    @property
    def failed(self) -> bool:
        return self not in (Outcome.OK, Outcome.CANCELLED)


_MIN_BYTES_A_TOKEN = 0.5
_RETOKENIZED = 0.8
"""A text cut into tokens again may have fewer than were generated; so many at least."""


@dataclass(slots=True)
class RequestRecord:
    """Monotonic ns throughout; None = it never came to that (censored, never 0)."""

    index: int
    """j, the place in the global arrival schedule."""
    sched_ns: int
    """When the arrival process wanted it."""
    fire_ns: int = 0
    """When the client began to connect or write."""
    sent_ns: int | None = None
    """When the last body byte was in the socket."""
    headers_ns: int | None = None
    end_ns: int | None = None
    """Terminal signal, or the moment of failure."""
    event_ns: array[int] = field(default_factory=lambda: array("q"))
    """Arrival of each content event: the latest it can have been (exact where ``event_low_ns`` equals it)."""
    event_low_ns: array[int] = field(default_factory=lambda: array("q"))
    """The earliest each content event can have arrived: several events in one read are intervals."""
    tokens: int = 0
    tokens_by_usage: bool = False
    """False: ``tokens`` counts events."""
    outcome: Outcome = Outcome.OK
    status: int = 0
    finish_reason: str = ""
    saw_done: bool = False
    error: str = ""
    user_stamps: int = 0
    """Reads that had no kernel stamp and took user time."""
    clock_jump: bool = False
    """CLOCK_REALTIME moved by more than 1 ms against the monotonic clock during this request."""
    asked_tokens: int = 0
    """Output tokens that are owed (``ignore_eos``); 0 = the model may stop when it likes."""
    text_bytes: int = 0
    counted_tokens: int | None = None
    """Tokens of the text by the user's tokenizer."""
    other_parts: bool = False
    """Something beside plain text came (tool calls): there may be more events than tokens."""

    @property
    def ttft_ns(self) -> int | None:
        return self.event_ns[0] - self.sched_ns if self.event_ns else None

    @property
    def e2e_ns(self) -> int | None:
        return None if self.end_ns is None else self.end_ns - self.sched_ns

    @property
    def tpot_ns(self) -> float | None:
        """(t_last - t_first)/(n-1), n by usage where given; absent if n < 2, or where all came at once."""
        n = self.tokens if self.tokens_by_usage else len(self.event_ns)
        if n < 2 or len(self.event_ns) < 2 or self.event_ns[-1] <= self.event_ns[0]:
            return None
        return (self.event_ns[-1] - self.event_ns[0]) / (n - 1)

    @property
    def lag_ns(self) -> int:
        """client_lag: the client's own lateness."""
        return self.fire_ns - self.sched_ns

    @property
    def complete(self) -> bool:
        """A true terminal signal and all its tokens."""
        return self.outcome is Outcome.OK and bool(self.saw_done or self.finish_reason) and not self.missing

    @property
    def missing(self) -> str:
        """How usage, the tokens asked for, and what really came contradict each other; empty = they do not."""
        events = len(self.event_ns)
        if self.tokens_by_usage:
            if events > self.tokens and not self.other_parts:
                return f"usage says {self.tokens} tokens, {events} events with text came"
            if self.counted_tokens is not None and self.counted_tokens < _RETOKENIZED * self.tokens - 1:
                return f"usage says {self.tokens} tokens, the text that came has {self.counted_tokens}"
            if not self.other_parts and self.text_bytes < _MIN_BYTES_A_TOKEN * self.tokens:
                return f"usage says {self.tokens} tokens, only {self.text_bytes} bytes of text came"
            if self.tokens < self.asked_tokens:
                return f"{self.asked_tokens} tokens were to come (ignore_eos), usage says {self.tokens}"
        elif self.counted_tokens is not None and self.counted_tokens < _RETOKENIZED * self.asked_tokens - 1:
            return f"{self.asked_tokens} tokens were to come (ignore_eos), the text has {self.counted_tokens}"
        return ""
