"""Secrets out of what a server said: it may send back what it was sent, and the text may be cut anywhere."""

from __future__ import annotations

from collections.abc import Iterable

from chaosflow.core.environment import HIDDEN, MIN_FREE_TEXT_CHARS, Secrets


class Hider:
    """For one run's secrets. A value shorter than six characters stays: it would tear holes into every text."""

    def __init__(self, values: Iterable[str]) -> None:
        self._spellings = Secrets(values=set(values)).spellings()

    def hide(self, text: str) -> str:
        """``text`` without a secret, nor the beginning of one where it ends."""
        if not text:
            return text
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        for spelling in self._spellings:
            for length in range(len(spelling) - 1, MIN_FREE_TEXT_CHARS - 1, -1):
                if text.endswith(spelling[:length]):
                    return text[:-length] + HIDDEN
        return text
