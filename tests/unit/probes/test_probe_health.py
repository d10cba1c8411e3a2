"""The target's own health check: good, bad, silent, gone."""

from __future__ import annotations

import asyncio
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


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = (await reader.readline()).split()[1]
    if path == b"/silent":
        await asyncio.sleep(1.5)
    status = {b"/health": b"200 OK", b"/empty": b"204 No Content"}.get(path, b"503 Service Unavailable")
    writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
    writer.close()


def asked(path: str, count: int = 1) -> list[Reading]:
    async def go() -> list[Reading]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            return await first_readings(server.sockets[0].getsockname()[1], path, count)

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
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await first_readings(port, "/health")

    (reading,) = asyncio.run(go())
    assert reading.value == 0.0


def test_an_answer_that_is_no_http_has_no_status() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        writer.close()

    async def go() -> int:
        async with await asyncio.start_server(rude, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return (await ask(Endpoint("127.0.0.1", port, "/health"), 1.0))[0]

    assert asyncio.run(go()) == 0
