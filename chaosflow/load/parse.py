"""What one event of an OpenAI-compatible stream means: a token, an end, a count, an error, or nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

_OUTPUT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal", "function_call")


class Piece(NamedTuple):
    """One event. ``token``: it carries output; a role-only, empty or usage-only chunk does not."""

    token: bool = False
    done: bool = False
    finish_reason: str = ""
    usage_tokens: int | None = None
    error: str = ""


NOTHING = Piece()
TOKEN = Piece(token=True)
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
    token, finish_reason = False, ""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        token = token or _has_output(choice)
        if (reason := choice.get("finish_reason")) and isinstance(reason, str):
            finish_reason = reason
    usage_tokens = _usage_of(chunk)
    if finish_reason == "error":
        return Piece(error="finish_reason is 'error'")
    if not finish_reason and usage_tokens is None:
        return TOKEN if token else NOTHING
    return Piece(token, False, finish_reason, usage_tokens)


def _has_output(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if isinstance(delta, dict) and any(delta.get(name) for name in _OUTPUT_FIELDS):
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
