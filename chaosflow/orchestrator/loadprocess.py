"""The load as the orchestrator sees it: a helper process at the other end of a Unix socket (core.loadlink)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.errors import ChaosflowError
from chaosflow.core.loadlink import API_KEY_VARIABLE, LoadOrder
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CellBatch
from chaosflow.orchestrator.children import MEASURING_NICE, Child, Place, start_child

START_IN_NS = NS_PER_S // 5
"""So long after it is told to, the load begins: every worker has heard by then."""
DRAIN_S = 5.0
"""So long may requests that are under way at the end go on."""
_LINE_BYTES = 64 << 20
_EXIT_S = 1.0
_SILENT_S = 5.0
"""Every worker sends a batch a second; nothing at all for so long: the load hangs."""
_BEAT_S = 0.5


class LoadProcess:
    """Locust with our streaming clients. ``on_batch`` gets every cell batch, ``on_lost`` any loss."""

    def __init__(
        self,
        place: Place,
        state: Path,
        *,
        on_batch: Callable[[CellBatch], None],
        on_lost: Callable[[str], None],
        on_note: Callable[[str], None],
    ) -> None:
        self._place, self._state = place, state
        self._on_batch, self._on_lost, self._on_note = on_batch, on_lost, on_note
        self._child: Child | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ready = asyncio.Event()
        self._bye = asyncio.Event()
        self._gone = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._heard_s = 0.0

    async def start(self, order: LoadOrder, api_key: str | None, timeout_s: float = 30.0) -> None:
        """Start it and wait until every worker is ready. Raises ChaosflowError."""
        socket_path = self._state / "load.sock"
        order_fd = os.memfd_create("order")  # headers and bodies may hold secrets: never on a disk
        os.write(order_fd, order.model_dump_json().encode())
        server = await asyncio.start_unix_server(self._serve, socket_path, limit=_LINE_BYTES)
        env = {API_KEY_VARIABLE: api_key} if api_key else {}
        command = [sys.executable, "-P", "-m", "chaosflow.load", f"/dev/fd/{order_fd}", str(socket_path)]
        try:
            self._child = await start_child(
                self._place, "load", command, env=env, nice=MEASURING_NICE, inherit=[order_fd]
            )
            await self._await_ready(timeout_s)
        finally:
            os.close(order_fd)
            server.close()

    async def _await_ready(self, timeout_s: float) -> None:
        assert self._child
        died = asyncio.create_task(self._child.process.wait())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({died, ready}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                cause = (
                    f"died with exit code {died.result()}"
                    if died.done()
                    else f"not ready after {timeout_s:g} s"
                )
                raise ChaosflowError("load (Locust)", cause, self._child.last_words())
        finally:
            for task in (died, ready):
                task.cancel()
            await asyncio.gather(died, ready, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            while line := await reader.readline():
                self._receive(orjson.loads(line))
        except (ValueError, ConnectionError) as e:
            self._on_note(f"load: broken message ({e})")
        finally:
            self._gone.set()
            if not self._bye.is_set():
                self._on_lost(await self._how_it_went())
            writer.close()

    async def _how_it_went(self) -> str:
        if self._child is not None:
            with contextlib.suppress(TimeoutError):
                code = await asyncio.wait_for(self._child.process.wait(), _EXIT_S)
                return f"the load process died (exit code {code})"
        return "the load process is gone"

    async def _watch(self) -> None:
        """Notice a load that is there but says nothing any more (its workers watch each other, nobody the master)."""
        while not (self._bye.is_set() or self._gone.is_set()):
            begun_s = time.monotonic()
            await asyncio.sleep(_BEAT_S)
            now_s = time.monotonic()
            if now_s - begun_s > 2 * _BEAT_S:  # it was us who stood still, and what came is yet to be read
                self._heard_s = now_s
            elif now_s - self._heard_s > _SILENT_S:
                self._on_lost(f"the load process said nothing for {_SILENT_S:g} s")
                return

    async def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None

    def _receive(self, message: dict[str, Any]) -> None:
        self._heard_s = time.monotonic()
        match message["type"]:
            case "cells":
                self._on_batch(CellBatch.from_wire(message["batch"]))
            case "ready":
                self._ready.set()
            case "lost":
                self._on_lost(f"load worker {message['worker']}: {message['reason']}")
            case "note":
                self._on_note(message["text"])
            case "bye":
                self._bye.set()

    def _send(self, **message: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(orjson.dumps(message) + b"\n")

    def begin(self, t0_ns: int) -> None:
        """Origin of the arrival schedule and of second 0."""
        self._send(type="start", t0_ns=t0_ns)
        self._heard_s = max(time.monotonic(), t0_ns / 1e9)
        self._watcher = asyncio.create_task(self._watch())

    def mark(self, mark: Mark) -> None:
        self._send(type="mark", mark=mark.to_wire())

    def limits(self, limits: dict[int, tuple[float, float]]) -> None:
        self._send(type="limits", limits={str(index): list(pair) for index, pair in limits.items()})

    def horizon(self, until_ns: int) -> None:
        """Marks and limits are complete up to here."""
        self._send(type="horizon", until_ns=until_ns)

    async def finish(self, at_ns: int, drain_s: float) -> None:
        """No arrival from ``at_ns`` on; returns when every final batch is here, or nothing more can come."""
        await self._stop_watching()  # from here on the end itself has its time limit
        self._send(type="stop", at_ns=at_ns, drain_s=drain_s)
        waits = {asyncio.create_task(self._bye.wait()), asyncio.create_task(self._gone.wait())}
        try:
            done, _ = await asyncio.wait(waits, timeout=drain_s + 10.0, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                self._on_lost(f"the load did not end within {drain_s + 10:g} s")
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def stop(self) -> None:
        """End the process whatever it is doing."""
        self._bye.set()  # from here on its going is expected
        await self._stop_watching()
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
        if self._child:
            await self._child.stop()
