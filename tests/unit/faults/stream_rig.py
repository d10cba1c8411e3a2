"""A lane with one toxic and no sockets: bytes in, bytes out; and a strict reader of what comes out."""

from __future__ import annotations

import random
import time
from typing import Any, cast

from chaosflow.faults.proxy.lane import Lane
from chaosflow.faults.proxy.request import Request
from chaosflow.faults.proxy.timers import Timer, Timers
from chaosflow.faults.proxy.toxic import Toxic
from chaosflow.faults.proxy.toxics import toxic_types


class ManualTimers:
    """Timers that fire when the test says so."""

    def __init__(self) -> None:
        self.pending: list[Timer] = []

    def at(self, due_ns: int, callback: Any) -> Timer:
        timer = Timer(due_ns, callback)
        self.pending.append(timer)
        return timer

    def fire(self) -> None:
        pending, self.pending = self.pending, []
        for timer in pending:
            if timer.callback is not None:
                timer.callback()


class MemoryWire:
    """What a lane needs of a link; keeps what is written."""

    def __init__(self, stream: str = "downstream", request: Request | None = None) -> None:
        self.manual = ManualTimers()
        self.timers = cast(Timers, self.manual)
        self.rng = random.Random(5)
        self.request = request
        self.moved_ns = time.monotonic_ns()
        self.writes: list[bytes] = []
        self.answers: list[bytes] = []
        self.ended = ""
        self.lane = Lane(self, stream)

    @property
    def out(self) -> bytes:
        return b"".join(self.writes)

    def add(self, kind: str, toxicity: float = 1.0, **attributes: Any) -> Toxic:
        given = {"name": "t", "toxicity": toxicity, "attributes": attributes, "stream": self.lane.stream}
        toxic = toxic_types()[kind].model_validate(given)
        self.lane.attach(toxic)
        return toxic

    def write(self, lane: Lane, data: bytes) -> None:
        assert not self.ended, f"{data!r} after the end"
        self.writes.append(data)

    def write_end(self, lane: Lane, *, reset: bool) -> None:
        self.ended = "reset" if reset else "whole" if lane.cut else "eof"

    def read_on(self, lane: Lane, *, on: bool) -> None: ...

    def reset(self) -> None:
        self.ended = "reset"

    def answer(self, data: bytes) -> None:
        self.answers.append(data)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


def responses(data: bytes) -> list[tuple[bytes, bytes, bool]]:
    """(head, body, complete) of each chunked or counted response; asserts that the framing is valid."""
    found = []
    while data:
        head, blank, data = data.partition(b"\r\n\r\n")
        assert blank, head
        assert head.startswith(b"HTTP/1.1 "), head
        body, complete = bytearray(), head[9:12] in (b"100", b"204")
        if b"content-length:" in head.lower():
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            assert len(data) >= size
            body, data, complete = bytearray(data[:size]), data[size:], True
        while data and not complete:
            line, end, data = data.partition(b"\r\n")
            assert end, line
            size = int(line.partition(b";")[0], 16)
            while size == 0 and not data.startswith(b"\r\n"):
                data = data.partition(b"\r\n")[2]  # trailer
            assert data[size : size + 2] == b"\r\n", (line, data[: size + 2])
            body += data[:size]
            data, complete = data[size + 2 :], size == 0
        found.append((head, bytes(body), complete))
    return found
