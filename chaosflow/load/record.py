"""A request's record with what tells whether all of its tokens came."""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.core.sample import Outcome, RequestRecord

_MIN_BYTES_A_TOKEN = 0.5
_RETOKENIZED = 0.8
"""A text cut into tokens again may have fewer than were generated; so many at least."""


@dataclass(slots=True)
class StreamRecord(RequestRecord):
    """RequestRecord, and the size of the text that came."""

    asked_tokens: int = 0
    """Output tokens that are owed (``ignore_eos``); 0 = the model may stop when it likes."""
    text_bytes: int = 0
    counted_tokens: int | None = None
    """Tokens of the text by the user's tokenizer."""
    other_parts: bool = False
    """Something beside plain text came (tool calls): there may be more events than tokens."""

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
