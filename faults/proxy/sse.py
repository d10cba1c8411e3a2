"""Server-sent events in the bytes of a body: where each ends, and which of them carry a token."""

from __future__ import annotations

import re

import orjson

_PARTIAL_LIMIT = 1 << 20
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")  # atomic: CR LF is one line end, never two
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CONTENT = re.compile(
    rb'"(?:content|text|reasoning|reasoning_content)"\s*:\s*"[^"]|"tool_calls"\s*:\s*\[\s*\{'
)


class EventSplitter:
    """Cuts a body into blocks that each end with a blank line: events, or comments that stand alone.

    Lines end with LF, CRLF or CR, mixed, wherever the bytes are cut. No byte is lost or changed. A CR that
    ends a block is not waited behind: an LF that belongs to it comes with the next block.
    """

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The blocks that are complete now."""
        text = self._partial + data
        blocks: list[bytes] = []
        begin = 0
        # a line end may be cut in two: look again at what could be part of one
        search = max(0, len(self._partial) - 3)
        while found := _BLANK_LINE.search(text, search):
            blocks.append(text[begin : found.end()])
            begin = search = found.end()
        self._partial = text[begin:]
        if len(self._partial) > _PARTIAL_LIMIT:
            blocks.append(self.rest())
        return blocks

    def rest(self) -> bytes:
        """What has no blank line behind it yet; forgotten by the splitter."""
        partial, self._partial = self._partial, b""
        return partial

    @property
    def waiting(self) -> bool:
        """Whether a block has begun and not ended."""
        return bool(self._partial)


def payload_of(block: bytes) -> bytes:
    """The ``data`` of an event, its lines joined by LF; empty for a comment."""
    lines = (line for line in _LINE_END.split(block) if line.startswith(b"data"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line[4:5] == b":")


def has_content(payload: bytes) -> bool:
    """Whether the data of an OpenAI-style event carries a token (role, usage and empty chunks do not)."""
    payload = payload.strip()
    if not payload.startswith(b"{"):
        return False
    try:
        choices = orjson.loads(payload).get("choices") or []
        for choice in choices:
            delta = choice.get("delta") or {}
            if choice.get("text") or any(
                delta.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls")
            ):
                return True
    except (orjson.JSONDecodeError, AttributeError):
        return bool(_CONTENT.search(payload))
    return False


def is_done(payload: bytes) -> bool:
    return payload.strip() == b"[DONE]"


def has_finish_reason(payload: bytes) -> bool:
    try:
        choices = orjson.loads(payload).get("choices") or []
        return any(choice.get("finish_reason") for choice in choices)
    except (orjson.JSONDecodeError, AttributeError):
        return False
