"""One client connection and its connection to the upstream: two sockets, two lanes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

from chaosflow.faults.proxy.lane import Lane
from chaosflow.faults.proxy.request import Request
from chaosflow.faults.proxy.timers import Timers
from chaosflow.faults.proxy.toxic import Toxic

_READ_BYTES = 1 << 18
_WRITE_HIGH_BYTES = 1 << 18
_buffer = memoryview(bytearray(_READ_BYTES))  # one for the process: emptied within the callback that fills it


class Side(asyncio.BufferedProtocol):
    """One of the two sockets. What it reads goes into ``out``; ``into`` writes to it."""

    def __init__(self, link: Link, out: Lane, into: Lane) -> None:
        self.link, self.out, self.into = link, out, into
        self.transport: asyncio.Transport | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self.link.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(_buffer[:nbytes])
        self.link.heard(self, data)
        self.out.feed(data)

    def eof_received(self) -> bool:
        self.out.end(reset=False)
        return True  # keep the other direction open: half-close

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.link.side_lost(self)

    def pause_writing(self) -> None:
        self.into.sink_full = True
        self.into.pressure()

    def resume_writing(self) -> None:
        self.into.sink_full = False
        self.into.pressure()

    def abort(self) -> None:
        """Close at once, with a RST where the socket is a TCP one; unsent bytes are dropped."""
        if self.transport is None or self.lost:
            return
        raw: socket.socket | None = self.transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class Link:
    """Both sides and both lanes. Ends when both directions have ended, or by a reset of both sides."""

    def __init__(self, timers: Timers, rng: random.Random, gone: Callable[[Link], None]) -> None:
        self.timers, self.rng, self._gone = timers, rng, gone
        self.upward, self.downward = Lane(self, "upstream"), Lane(self, "downstream")
        self.client = Side(self, out=self.upward, into=self.downward)
        self.server = Side(self, out=self.downward, into=self.upward)
        self.request: Request | None = None
        self.moved_ns = time.monotonic_ns()
        self._through: set[Lane] = set()  # lanes whose end has reached the sink
        self._closing = False
        self._connect: Callable[[], None] | None = None

    def on_accept(self, connect: Callable[[], None]) -> Side:
        """The client side; ``connect`` is called when its socket is there, and must lead to ``made``."""
        self._connect = connect
        return self.client

    def made(self, side: Side) -> None:
        transport = side.transport
        if side is self.client and self._connect:
            # not at once: older Pythons (3.11.2) begin to read just after this, paused or not
            asyncio.get_running_loop().call_soon(self._wait_for_server)
            self._connect()
        elif self.client.transport and not self._closing:
            self.client.transport.resume_reading()
        elif transport:
            transport.abort()

    def _wait_for_server(self) -> None:
        """Read nothing from the client until there is somebody to pass it to."""
        if self.server.transport is None and self.client.transport:
            self.client.transport.pause_reading()

    def heard(self, side: Side, data: bytes) -> None:
        """Note what the client asks, and that the connection is not idle."""
        self.moved_ns = time.monotonic_ns()
        if side is self.client and (request := Request.begins(data)):
            self.request = request

    def lane(self, stream: str) -> Lane:
        return self.upward if stream == "upstream" else self.downward

    def attach(self, toxic: Toxic) -> None:
        if not self._closing:
            self.lane(toxic.stream).attach(toxic)

    def detach(self, toxic: Toxic) -> None:
        self.lane(toxic.stream).detach(toxic)

    def updated(self, toxic: Toxic) -> None:
        for known, stage in self.lane(toxic.stream).stages:
            if known is toxic:
                stage.updated()

    def write(self, lane: Lane, data: bytes) -> None:
        side = self._sink(lane)
        if side.transport and not side.transport.is_closing():
            side.transport.write(data)

    def write_end(self, lane: Lane, *, reset: bool) -> None:
        if reset:
            self.reset()
            return
        side = self._sink(lane)
        if side.transport and not side.transport.is_closing():
            with contextlib.suppress(OSError):
                side.transport.write_eof()
        self._through.add(lane)
        if lane.cut:
            self._through.update((self.upward, self.downward))
        self._close_when_done()

    def answer(self, data: bytes) -> None:
        """Send the client bytes as if the server had: they go through the toxics of that direction."""
        self.downward.feed(data)

    def read_on(self, lane: Lane, *, on: bool) -> None:
        source = self.client if lane is self.upward else self.server
        if source.transport and not source.transport.is_closing():
            (source.transport.resume_reading if on else source.transport.pause_reading)()

    def reset(self) -> None:
        """RST to both ends, now."""
        self._closing = True
        self._cancel()
        self.client.abort()
        self.server.abort()

    def side_lost(self, side: Side) -> None:
        if self._closing:
            self._cancel()
        elif not side.out.ended:
            side.out.end(reset=True)  # behind what this side had sent before
        self._close_when_done()
        others = (other for other in (self.client, self.server) if other is not side)
        if all(other.lost or other.transport is None for other in others):
            self._cancel()
            self._gone(self)

    def _sink(self, lane: Lane) -> Side:
        return self.server if lane is self.upward else self.client

    def _close_when_done(self) -> None:
        if all(lane in self._through or self._sink(lane).lost for lane in (self.upward, self.downward)):
            self._closing = True
            for side in (self.client, self.server):
                if side.transport and not side.lost:
                    side.transport.close()

    def _cancel(self) -> None:
        self.upward.cancel()
        self.downward.cancel()
