"""``sse_error``: an error event within a stream that began with a 200."""

from __future__ import annotations

import json
from typing import ClassVar, Literal

from pydantic import Field

from chaosflow.faults.proxy.choice import StreamAttributes, StreamToxic
from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.rewrite import Event, StreamStage


class SseErrorAttributes(StreamAttributes):
    after_events: int = Field(1, ge=0)
    """Content events of one response that come before it."""
    message: str = "The server had an error while processing your request"
    code: int = Field(500, ge=400, le=599)
    then: Literal["done", "clean", "cut", "go_on"] = "done"
    """``done``: ``[DONE]`` and the response's end, as vLLM does; ``clean``: its end without ``[DONE]``; ``cut``:
    the connection is closed; ``go_on``: the stream continues as if nothing had been."""


class SseErrorToxic(StreamToxic):
    type: ClassVar[str] = "sse_error"

    attributes: SseErrorAttributes

    def stage(self, lane: Lane) -> Stage:
        return SseErrorStage(lane, self)


class SseErrorStage(StreamStage):
    """Writes the event that OpenAI's and vLLM's servers write when generation fails."""

    toxic: SseErrorToxic

    def begin(self) -> None:
        if self.toxic.attributes.after_events == 0 and self.from_begin:
            self._fail()

    def event(self, event: Event) -> None:
        self.write(event.raw)
        if event.number and event.number == self.toxic.attributes.after_events:
            self._fail()

    def _fail(self) -> None:
        wanted = self.toxic.attributes
        self.toxic.stats.add("acted")
        kind = "server_error" if wanted.code >= 500 else "invalid_request_error"
        error = {"message": wanted.message, "type": kind, "param": None, "code": wanted.code}
        self.write(b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        if wanted.then == "done":
            self.write(b"data: [DONE]\n\n")
        if wanted.then != "go_on":
            self.end_here("cut" if wanted.then == "cut" else "clean")
