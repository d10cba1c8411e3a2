"""What one event of an OpenAI-compatible stream means: a token, an end, a count, an error, or nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")
_OTHER_FIELDS = ("tool_calls", "function_call")


class Piece(NamedTuple):
    """One event. ``token``: it carries output; a role-only, empty or usage-only chunk does not."""

    token: bool = False
    text: str = ""
    """The output, as far as it is text."""
    done: bool = False
    finish_reason: str = ""
    usage_tokens: int | None = None
    error: str = ""


NOTHING = Piece()
DONE = Piece(done=True)


def classify(event_type: bytes, data: bytes) -> Piece:
    """The meaning of one event; raises ValueError where it is no JSON object."""
    if event_type == b"error":
        return Piece(error=_text(data))
    stripped = data.strip()
    if stripped == b"[DONE]":
        return DONE
    if not stripped:
        return NOTHING
    try:
        chunk = orjson.loads(stripped)
    except orjson.JSONDecodeError as e:
        raise ValueError(f"event is no JSON ({e}): {_text(stripped)}") from e
    if not isinstance(chunk, dict):
        raise ValueError(f"event is no JSON object: {_text(stripped)}")
    return _of_chunk(chunk)


def _of_chunk(chunk: dict[str, Any]) -> Piece:
    if error := _error_of(chunk):
        return Piece(error=error)
    token, text, finish_reason = False, "", ""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        more = _text_of(choice)
        text += more
        token = token or bool(more) or _has_other(choice)
        if (reason := choice.get("finish_reason")) and isinstance(reason, str):
            finish_reason = reason
    if finish_reason == "error":
        return Piece(error="finish_reason is 'error'")
    return Piece(token, text, False, finish_reason, _usage_of(chunk))


def _text_of(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    found = [choice.get("text")]
    if isinstance(delta, dict):
        found += [delta.get(name) for name in _TEXT_FIELDS]
        if delta.get("reasoning") and delta.get("reasoning") == delta.get("reasoning_content"):
            found.pop(2)  # the same under its old and its new name
    return "".join(text for text in found if isinstance(text, str))


def _has_other(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if isinstance(delta, dict) and any(delta.get(name) for name in (*_TEXT_FIELDS, *_OTHER_FIELDS)):
        return True
    return bool(choice.get("text"))


def _usage_of(chunk: dict[str, Any]) -> int | None:
    usage = chunk.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None


def _error_of(chunk: dict[str, Any]) -> str:
    error = chunk.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)[:300]
    if error:
        return str(error)[:300]
    if chunk.get("object") == "error":
        return str(chunk.get("message") or chunk)[:300]
    return ""


def _text(data: bytes) -> str:
    return data[:300].decode(errors="replace") or "(no text)"
