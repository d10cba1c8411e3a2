"""Text of a wanted number of tokens, and the user's own prompts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from chaosflow.core.errors import UsageError
from chaosflow.core.loadplan import FixedLength, Length, LognormalLength, UniformLength
from chaosflow.core.tracefile import lines_of

_WORDS: tuple[str, ...] = tuple(
    word
    for line in (
        "the of and to in is that for it as was with be by on not he this are or his from at which but have an",
        "had they you were their one all we can her has there been if more when will would who so no out up into",
        "time some could them new other than then now look only come over think also back after use two how our",
        "work first well way even want because any these give day most us water long little very good man world",
        "life hand part child eye woman place week case point number group fact light sound house page story",
        "river stone green night small great large young white black early music table paper money earth north",
    )
    for word in line.split()
)
"""Common English words: about one token each in every usual vocabulary."""
_FEWEST_WORDS = 32


def draw(length: Length, rng: random.Random) -> int:
    """One length, in tokens."""
    if isinstance(length, FixedLength):
        return length.tokens
    if isinstance(length, UniformLength):
        return rng.randint(length.min, length.max)
    if isinstance(length, LognormalLength):
        from math import log, sqrt

        variance = log(1 + (length.sd / length.mean) ** 2)
        value = rng.lognormvariate(log(length.mean) - variance / 2, sqrt(variance))
    else:
        value = rng.gauss(length.mean, length.sd)
    value = max(length.min, round(value))
    return value if length.max is None else min(length.max, value)


class Writer:
    """Writes text of so many tokens: about so many by its words, exactly so with the model's tokenizer."""

    def __init__(self, tokenizer_json: str = "", name: str = "tokenizer") -> None:
        """``tokenizer_json``: content of a ``tokenizer.json``. Raises UsageError."""
        self._tokenizer = _tokenizer(tokenizer_json, name) if tokenizer_json else None
        self._words = _WORDS
        if self._tokenizer is not None:
            single = tuple(word for word in _WORDS if self.count(f" {word}") == 1)
            self._words = single if len(single) >= _FEWEST_WORDS else _WORDS

    @property
    def exact(self) -> bool:
        return self._tokenizer is not None

    def count(self, text: str) -> int:
        """Tokens of a text, without those that mark its begin and end. Needs the tokenizer."""
        assert self._tokenizer is not None
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, rng: random.Random, tokens: int) -> str:
        """Text of ``tokens`` tokens."""
        words = rng.choices(self._words, k=tokens)
        if self._tokenizer is None:
            return " ".join(words)
        while True:
            text = " ".join(words)
            over = self.count(text) - tokens
            if over <= 0 or len(words) == 1:
                break
            del words[max(1, len(words) - max(1, over * len(words) // (tokens + over))) :]
        while over < 0:  # a short word more as long as one is missing
            text += " a"
            over += 1
        return text


def _tokenizer(content: str, name: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as e:
        raise UsageError(
            "load.tokenizer", "the package 'tokenizers' is missing", "pip install tokenizers"
        ) from e
    try:
        return Tokenizer.from_str(content)
    except Exception as e:
        raise UsageError(name, f"not a tokenizer.json: {e}", "give the model's own tokenizer.json") from e


class OwnPrompt(NamedTuple):
    """One line of the user's prompts file."""

    prompt: str
    messages: list[dict[str, Any]] | None
    output_tokens: int | None
    deadline_s: float | None


def parse_prompts(text: str, name: str) -> list[OwnPrompt]:
    """The lines of a prompts file. Raises UsageError with the line's number."""
    found = []
    for number, line in enumerate(lines_of(text), 1):
        if line.strip():
            try:
                found.append(_own_prompt(orjson.loads(line)))
            except (ValueError, TypeError, AttributeError) as e:
                remedy = 'write {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}'
                raise UsageError(f"{Path(name).name}, line {number}", str(e), remedy) from e
    if not found:
        raise UsageError(name, "holds no prompt", "write one JSON object a line")
    return found


def _own_prompt(row: dict[str, Any]) -> OwnPrompt:
    unknown = set(row) - {"prompt", "messages", "output_tokens", "deadline_s"}
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
    prompt, messages = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str) == isinstance(messages, list):
        raise ValueError("give either 'prompt' (text) or 'messages' (a list)")
    output_tokens, deadline_s = row.get("output_tokens"), row.get("deadline_s")
    if output_tokens is not None and (not isinstance(output_tokens, int) or output_tokens < 1):
        raise ValueError("output_tokens must be a whole number above 0")
    if deadline_s is not None and (not isinstance(deadline_s, int | float) or deadline_s <= 0):
        raise ValueError("deadline_s must be a number above 0")
    return OwnPrompt(prompt or "", messages, output_tokens, deadline_s)
