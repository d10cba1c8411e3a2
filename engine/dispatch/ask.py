"""What a client asked for: parsed, checked, counted. Unknown fields are tolerated, as servers do."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import orjson

DEFAULT_COMPLETION_TOKENS = 16  # what OpenAI's /completions does without max_tokens


class ApiError(Exception):
    """An answer in OpenAI's error shape."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for one completion."""

    chat: bool
    prompt_tokens: int
    max_tokens: int
    seed: int
    may_end: bool
    """No limit given, and not ``ignore_eos``: the text ends where it ends."""
    stream: bool
    include_usage: bool
    stops: tuple[str, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What this engine can serve."""

    model: str
    context_tokens: int
    """Of one sequence, by the model and by the whole KV cache, whichever is less."""
    seed: int = 0


def count_tokens(text: str) -> int:
    """The engine's rule: a word (between white space) is one token per started 8 bytes of UTF-8."""
    return sum((len(word.encode()) + 7) // 8 for word in text.split())


def parse(body: bytes, limits: Limits, *, chat: bool) -> Ask:
    """Raises ApiError 400 for what is malformed or too long for the context, 404 for another model."""
    fields = _json_object(body)
    model = fields.get("model")
    if not isinstance(model, str):
        raise ApiError(400, "you must provide a model parameter", param="model")
    if model != limits.model:
        raise ApiError(
            404,
            f"The model `{model}` does not exist; this server has `{limits.model}`.",
            code="model_not_found",
            param="model",
        )
    if fields.get("n") not in (None, 1):
        raise ApiError(400, "n: only 1 is supported", param="n")
    text, prompt_tokens = _chat_prompt(fields) if chat else _completion_prompt(fields)
    asked = _max_tokens(fields)
    if asked is None and not chat:
        asked = DEFAULT_COMPLETION_TOKENS
    room = limits.context_tokens - prompt_tokens
    if room < (asked or 1):
        raise ApiError(
            400,
            f"This model's maximum context length is {limits.context_tokens} tokens. However, you requested "
            f"{prompt_tokens + (asked or 1)} tokens ({prompt_tokens} in the prompt, {asked or 1} to generate).",
            code="context_length_exceeded",
        )
    stream = _flag(fields, "stream")
    return Ask(
        chat=chat,
        prompt_tokens=prompt_tokens,
        max_tokens=asked if asked is not None else room,
        seed=_seed(fields, limits.seed) << 32 | zlib.crc32(text.encode()),
        may_end=asked is None and not _flag(fields, "ignore_eos"),
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
        stops=_stops(fields),
        priority=_integer(fields, "priority", low=-100, high=100) or 0,
    )


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise ApiError(400, f"We could not parse the JSON body of your request: {e}") from e
    if not isinstance(fields, dict):
        raise ApiError(400, "the request's body must be a JSON object")
    return fields


def _chat_prompt(fields: dict[str, Any]) -> tuple[str, int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages: expected a list with at least one message", param="messages")
    texts = [_message_text(message, f"messages.{i}") for i, message in enumerate(messages)]
    return "\n".join(texts), max(1, sum(count_tokens(text) for text in texts))


def _message_text(message: object, where: str) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ApiError(400, f"{where}: expected an object with role and content", param=where)
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    raise ApiError(400, f"{where}.content: expected a string or a list of parts", param=where)


def _completion_prompt(fields: dict[str, Any]) -> tuple[str, int]:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt, max(1, count_tokens(prompt))
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return repr(prompt), len(prompt)
    raise ApiError(400, "prompt: expected one string, or one list of token ids", param="prompt")


def _max_tokens(fields: dict[str, Any]) -> int | None:
    newer = _integer(fields, "max_completion_tokens", low=1)
    return newer if newer is not None else _integer(fields, "max_tokens", low=1)


def _integer(fields: dict[str, Any], name: str, *, low: int, high: int = 1 << 31) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int or not low <= value <= high:
        raise ApiError(400, f"{name}: expected an integer from {low} to {high}, not {value!r}", param=name)
    return value


def _seed(fields: dict[str, Any], default: int) -> int:
    value = fields.get("seed")
    if value is not None and type(value) is not int:
        raise ApiError(400, f"seed: expected an integer, not {value!r}", param="seed")
    return (default if value is None else value) & 0xFFFF_FFFF


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value not in (None, True, False):
        raise ApiError(400, f"{name}: expected true or false, not {value!r}", param=name)
    return bool(value)


def _include_usage(fields: dict[str, Any], *, stream: bool) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise ApiError(400, "stream_options: expected an object", param="stream_options")
    if not stream:
        raise ApiError(400, "stream_options: only allowed with stream", param="stream_options")
    return _flag(options, "include_usage")


def _stops(fields: dict[str, Any]) -> tuple[str, ...]:
    stop = fields.get("stop")
    if stop is None:
        return ()
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in stops):
        raise ApiError(400, "stop: expected a non-empty string or a list of them", param="stop")
    return tuple(stops)
