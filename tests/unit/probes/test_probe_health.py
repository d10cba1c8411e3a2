"""The target's own health check: good, bad, silent, gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from chaosflow.core.clock import SystemClock
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.probe import Reading
from chaosflow.probes.health import READY, HealthProbe
from chaosflow.probes.scrape import Endpoint, ask


async def first_readings(port: int, path: str, count: int = 1) -> list[Reading]:
    handle = TargetHandle(False, f"http://127.0.0.1:{port}/v1", health=path)
    readings = cast(AsyncGenerator[Reading, None], HealthProbe(Host("t", handle)).readings(SystemClock()))
    try:
        return [await anext(readings) for _ in range(count)]
    finally:
        await readings.aclose()


class Answering:
    """A server whose answer depends on the path; no connection of it outlives the block."""

    def __init__(self, greeting: bytes | None = None) -> None:
        self._greeting = greeting
        self._done: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._done, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._done.append(task)
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if path == b"/silent":
                await reader.read()  # until the client gives up
            status = {b"/health": b"200 OK", b"/empty": b"204 No Content"}.get(path, b"503 Busy")
            writer.write(self._greeting or b"HTTP/1.1 " + status + b"\r\n\r\n")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def asked(path: str, count: int = 1) -> list[Reading]:
    async def go() -> list[Reading]:
        async with Answering() as port:
            return await first_readings(port, path, count)

    return asyncio.run(go())


@pytest.mark.parametrize(("path", "ready"), [("/health", 1.0), ("/empty", 1.0), ("/bad", 0.0)])
def test_a_status_below_400_is_ready(path: str, ready: float) -> None:
    first, second = asked(path, 2)
    assert (first.series, first.value) == (READY, ready)
    assert second.series == "health.answer_ms"


@pytest.mark.slow
def test_no_answer_is_an_answer_and_not_ready() -> None:
    (reading,) = asked("/silent")
    assert (reading.series, reading.value) == (READY, 0.0)


def test_nobody_there_is_not_ready() -> None:
    async def go() -> list[Reading]:
        async with Answering() as port:
            pass
        return await first_readings(port, "/health")

    (reading,) = asyncio.run(go())
    assert reading.value == 0.0


def test_an_answer_that_is_no_http_has_no_status() -> None:
    async def go() -> int:
        async with Answering(b"SSH-2.0-OpenSSH\r\n\r\n") as port:
            return (await ask(Endpoint("127.0.0.1", port, "/health"), 1.0))[0]

    assert asyncio.run(go()) == 0
