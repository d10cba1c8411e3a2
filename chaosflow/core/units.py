"""Durations, shares and rates as people write them, and back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|m|h|d)")
_LONGEST_S = 1e9  # 30 years; timers of the system end at ten times that
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def parse_duration_s(text: object) -> float:
    """Seconds of ``"90s"``, ``"1m30s"``, ``"250ms"`` or a plain number of seconds.

    Raises ValueError for anything else: negative numbers, booleans and more than 30 years included.
    """
    seconds = _seconds(text)
    if seconds > _LONGEST_S:
        raise ValueError(f"{text!r} is longer than 30 years")
    return seconds


def _seconds(text: object) -> float:
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a duration; write for example 60s or 1m30s")
    if isinstance(text, int | float):
        if text < 0 or text != text or text == float("inf"):
            raise ValueError(f"{text!r} is not a duration: it must be finite and not negative")
        return float(text)
    if not isinstance(text, str):
        raise ValueError("a duration is wanted; write for example 60s or 1m30s")
    compact = text.strip()
    parts = _DURATION_PART.findall(compact)
    if not parts or _DURATION_PART.sub("", compact).strip():
        raise ValueError(f"{text!r} is not a duration; write for example 60s, 1m30s or 250ms")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def counted(n: int, thing: str) -> str:
    """``1 run``, ``2 runs``, ``1,212 requests``. Knows the plural in s only."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def format_duration(seconds: float) -> str:
    """``0.0123`` -> ``12.3 ms``; ``61`` -> ``1 min 1 s``; ``5.25`` -> ``5.25 s``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995e-3:  # what rounds to 1,000 µs is 1 ms
        return f"{significant(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{significant(seconds * 1e3)} ms"
    if seconds < 59.95:
        return f"{significant(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{minutes} min" + (f" {rest} s" if rest and not hours else "")
    return f"{hours} h {minutes} min" if hours else text


def significant(value: float, digits: int = 3) -> str:
    """``1234.5`` -> ``1,234``; ``24.06`` -> ``24.1``; ``0.00001`` stays: so many digits, never a power of ten."""
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def printable(text: str) -> str:
    """``text`` without control characters: what a server calls itself must not move our cursor."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"did you mean 'latency_ms'?"``, or an empty string where nothing is near."""
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not near and len(word) >= 3:
        near = [other for other in words if other.startswith(word)][:1]
    return f"did you mean {near[0]!r}?" if near else ""
