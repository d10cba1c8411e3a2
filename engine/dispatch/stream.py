"""Answers that are sent while they are made, and the client that may go away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chaosflow.engine.core import Engine
from chaosflow.engine.dispatch.ask import Ask
from chaosflow.engine.dispatch.outlet import Outlet
from chaosflow.engine.dispatch.wire import Wire
from chaosflow.engine.schedule.sequence import Sequence

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Generation(Response):
    """One request in the engine, as an ASGI response; cancelled when its client disconnects."""

    def __init__(self, engine: Engine, ask: Ask, model: str) -> None:
        """Puts the request in line. Raises QueueFull."""
        self._engine, self._ask = engine, ask
        self._wire, self._outlet = Wire(ask, model), Outlet(ask.stops)
        self._sequence = self._submit()
        self.background = None

    def _submit(self) -> Sequence:
        ask = self._ask
        sequence = self._engine.submit(
            self._outlet,
            prompt_tokens=ask.prompt_tokens,
            max_tokens=ask.max_tokens,
            seed=ask.seed,
            priority=ask.priority,
            may_end=ask.may_end,
        )
        self._outlet.on_stop = lambda: self._engine.stop(sequence)
        self._outlet.on_room = self._engine.wake
        return sequence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._stream if self._ask.stream else self._whole
        try:
            await _unless_gone(answer(send), receive)
        finally:
            self._engine.cancel(self._sequence)

    async def _stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        wire, outlet = self._wire, self._outlet
        if first := wire.first():
            await send({"type": "http.response.body", "body": first, "more_body": True})
        while texts := await outlet.read():
            body = b"".join([wire.content(text) for text in texts])
            if outlet.reason:
                continue_with = await outlet.read()  # finished: nothing can be added but what is there
                body += b"".join([wire.content(text) for text in continue_with])
                break
            await send({"type": "http.response.body", "body": body, "more_body": True})
        else:
            body = b""
        body += wire.last(outlet.reason, outlet.tokens)
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _whole(self, send: Send) -> None:
        texts: list[str] = []
        while more := await self._outlet.read():
            texts += more
        body = self._wire.whole("".join(texts), self._outlet.reason, self._outlet.tokens)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


async def _unless_gone(answering: Awaitable[None], receive: Callable[[], Awaitable[object]]) -> None:
    """Run ``answering`` to its end, or drop it as soon as the client has disconnected."""
    answer = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
    finally:
        for task in (answer, gone):
            task.cancel()
        for task in (answer, gone):
            with suppress(asyncio.CancelledError):
                await task


async def _gone(receive: Callable[[], Awaitable[object]]) -> None:
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            return
