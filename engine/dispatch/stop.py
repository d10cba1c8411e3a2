"""Stop strings: found across tokens, and never shown."""

from __future__ import annotations


class StopFilter:
    """Passes text on, but holds back whatever might be the beginning of a stop string."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.met = False

    def feed(self, text: str) -> str:
        """The text that is safe to show now; sets ``met`` when a stop string was completed."""
        held = self._held + text
        hits = [at for stop in self._stops if (at := held.find(stop)) >= 0]
        if hits:
            self.met, self._held = True, ""
            return held[: min(hits)]
        keep = max(_overlap(held, stop) for stop in self._stops)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def rest(self) -> str:
        """What was held back when the text ended without the stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)
