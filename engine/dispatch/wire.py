"""The bytes of OpenAI's answers: chunks from a template made once per request, and whole bodies."""

from __future__ import annotations

import time
import uuid
from typing import Any

import orjson

from chaosflow.engine.dispatch.ask import Ask

DONE = b"data: [DONE]\n\n"


class Wire:
    """Everything that one request's answer consists of."""

    def __init__(self, ask: Ask, model: str) -> None:
        self._ask = ask
        self.id = ("chatcmpl-" if ask.chat else "cmpl-") + uuid.uuid4().hex
        self._head: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion.chunk" if ask.chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._before, self._after = self._template()

    def _template(self) -> tuple[bytes, bytes]:
        mark = "\x00"
        delta = {"content": mark} if self._ask.chat else None
        before, after = self._event(delta, text=mark).split(orjson.dumps(mark), 1)
        return before, after

    def _event(self, delta: dict[str, Any] | None, *, text: str = "", reason: str | None = None) -> bytes:
        choice: dict[str, Any] = {"index": 0}
        choice |= {"text": text} if delta is None else {"delta": delta}
        choice |= {"logprobs": None, "finish_reason": reason}
        chunk = self._head | {"choices": [choice]}
        if self._ask.include_usage:
            chunk["usage"] = None
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    def first(self) -> bytes:
        """The role chunk of a chat; nothing for a plain completion."""
        return self._event({"role": "assistant", "content": ""}) if self._ask.chat else b""

    def content(self, text: str) -> bytes:
        return self._before + orjson.dumps(text) + self._after

    def last(self, reason: str, tokens: int) -> bytes:
        """The finish chunk, the usage chunk if asked for, and [DONE]."""
        finish = self._event({} if self._ask.chat else None, reason=reason)
        usage = b""
        if self._ask.include_usage:
            chunk = self._head | {"choices": [], "usage": self._usage(tokens)}
            usage = b"data: " + orjson.dumps(chunk) + b"\n\n"
        return finish + usage + DONE

    def whole(self, text: str, reason: str, tokens: int) -> bytes:
        """The body of an answer that is not streamed."""
        choice: dict[str, Any] = {"index": 0}
        choice |= {"message": {"role": "assistant", "content": text}} if self._ask.chat else {"text": text}
        choice |= {"logprobs": None, "finish_reason": reason}
        kind = "chat.completion" if self._ask.chat else "text_completion"
        return orjson.dumps(self._head | {"object": kind, "choices": [choice], "usage": self._usage(tokens)})

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt = self._ask.prompt_tokens
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
