"""Token events of one stream differ in their text alone: the rest is read once, then only compared.

It saves the JSON parser on nearly every event, and never changes what an event means: text that is not
plain ASCII, or any other difference, goes the long way.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from chaosflow.load.parse import Piece

_PLAIN = re.compile(rb"[ !#-\[\]-~]+")  # printable ASCII without quote and backslash
_SENTINEL = "\x7f\x7fchaosflow"
_PATHS = (("delta", "content"), ("text",), ("delta", "reasoning_content"), ("delta", "reasoning"))
_MOST_MISSES = 8


class TokenShape:
    """What stands before and after the text. ``text`` is the hot path."""

    __slots__ = ("_after", "_before", "_block_after", "_block_before", "_misses", "_plain")

    def __init__(self) -> None:
        self._before = self._after = self._block_before = self._block_after = b""
        self._misses = 0
        self._plain = _PLAIN.fullmatch

    def text_of_block(self, block: bytes) -> int:
        """The same as ``text``, for the bytes of one whole event as they stand in the stream."""
        before, after = self._block_before, self._block_after
        if not before or not block.startswith(before) or not block.endswith(after):
            return 0
        begin, end = len(before), len(block) - len(after)
        return end - begin if end > begin and self._plain(block, begin, end) else 0

    def text(self, data: bytes) -> int:
        """Bytes of text in a token event of the known shape; 0 = not known to be one."""
        before, after = self._before, self._after
        if not before or not data.startswith(before) or not data.endswith(after):
            return 0
        begin, end = len(before), len(data) - len(after)
        if end <= begin or not self._plain(data, begin, end):
            return 0
        self._misses = 0
        return end - begin

    def text_in(self, data: bytes) -> str:
        """The text itself of an event for which ``text`` was not 0."""
        return data[len(self._before) : len(data) - len(self._after)].decode("ascii")

    def learn(self, data: bytes, piece: Piece) -> None:
        """Take the shape of an event that was read the long way, if it is a token and nothing else."""
        text = piece.text
        if not text or piece.finish_reason or piece.usage_tokens is not None or self._misses >= _MOST_MISSES:
            return
        quoted = orjson.dumps(text)
        if not _PLAIN.fullmatch(quoted, 1, len(quoted) - 1):
            return
        self._misses += 1
        at = data.find(b":" + quoted)
        while at >= 0:
            before, after = data[: at + 2], data[at + len(quoted) :]
            if _is_the_text(data, text, before, after):
                self._before, self._after = before, after
                self._block_before, self._block_after = b"data: " + before, after + b"\n\n"
                return
            at = data.find(b":" + quoted, at + 1)


def _is_the_text(data: bytes, text: str, before: bytes, after: bytes) -> bool:
    """Whether putting another text there gives the same event with that text, and changes nothing else."""
    try:
        other = orjson.loads(before + orjson.dumps(_SENTINEL)[1:-1] + after)
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if not isinstance(choices, list) or len(choices) != 1:
        return False
    for path in _PATHS:
        holder: Any = choices[0]
        for step in path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and holder.get(path[-1]) == text:
            holder[path[-1]] = _SENTINEL
            if chunk == other:
                return True
            holder[path[-1]] = text
    return False
