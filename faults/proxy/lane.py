"""One direction of one connection: source, a chain of toxic stages, sink. No byte is lost or reordered.

Without stages a chunk goes straight to the sink. A stage may hold bytes; what it holds is bounded, because
the source is not read while a stage or the sink's socket is full.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Protocol

from chaosflow.faults.proxy.request import Request
from chaosflow.faults.proxy.stats import Stats
from chaosflow.faults.proxy.timers import Timers


class Receiver(Protocol):
    """What bytes flow into."""

    def feed(self, data: bytes) -> None: ...

    def end(self, *, reset: bool) -> None:
        """No more bytes come: the source closed its side, or reset the connection."""


class Wire(Protocol):
    """What a lane needs of the link that it belongs to."""

    timers: Timers
    rng: random.Random
    request: Request | None
    """What the client asked last, as far as it was seen to be HTTP."""
    moved_ns: int
    """When a byte last came, from either side (CLOCK_MONOTONIC)."""

    def answer(self, data: bytes) -> None: ...

    def write(self, lane: Lane, data: bytes) -> None: ...

    def write_end(self, lane: Lane, *, reset: bool) -> None: ...

    def read_on(self, lane: Lane, *, on: bool) -> None: ...

    def reset(self) -> None: ...


class Poison(Protocol):
    """What a lane needs of a toxic."""

    toxicity: float

    @property
    def stats(self) -> Stats: ...

    def stage(self, lane: Lane) -> Stage: ...


class Stage(ABC):
    """One toxic at work in one lane. It passes on by ``self.next``, in order, whatever it is fed."""

    limit_bytes = 1 << 18
    """The source is paused while the stage holds this much."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.next: Receiver = lane.sink
        self.held = 0
        self.released = False
        """The toxic is gone: hold nothing new, finish what is held, then leave the chain."""

    @abstractmethod
    def feed(self, data: bytes) -> None: ...

    @abstractmethod
    def end(self, *, reset: bool) -> None: ...

    @abstractmethod
    def release(self) -> None:
        """The toxic was removed. Call ``leave`` as soon as nothing is held any more."""

    def updated(self) -> None:  # noqa: B027 (most stages read their attributes at each chunk)
        """The toxic's attributes have changed."""

    @abstractmethod
    def cancel(self) -> None:
        """The connection is gone: drop what is held and any timer."""

    def hold(self, size: int) -> None:
        self.held += size
        self.lane.pressure()

    def leave(self) -> None:
        self.lane.splice(self)

    def end_connection(self, *, reset: bool) -> None:
        """End both directions, behind what was passed on; the caller passes on nothing more, and stays."""
        self.lane.cut = True
        self.next.end(reset=reset)


class _Sink:
    """The end of the chain: the other side's socket."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def feed(self, data: bytes) -> None:
        self._lane.wire.write(self._lane, data)

    def end(self, *, reset: bool) -> None:
        self._lane.wire.write_end(self._lane, reset=reset)


class Lane:
    """``stream`` is ``upstream`` (client to server) or ``downstream`` (server to client)."""

    def __init__(self, wire: Wire, stream: str) -> None:
        self.wire, self.stream = wire, stream
        self.sink = _Sink(self)
        self.head: Receiver = self.sink
        self.stages: list[tuple[Poison, Stage]] = []
        self.sink_full = False
        self.ended = False
        """The source has ended; whether that has come through is the link's to know."""
        self.cut = False
        """A toxic has ended the connection: when this lane's end is through, both directions close."""
        self.bytes = 0
        self._reading = True

    def feed(self, data: bytes) -> None:
        self.bytes += len(data)
        self.head.feed(data)

    def end(self, *, reset: bool) -> None:
        if not self.ended:
            self.ended = True
            self.head.end(reset=reset)

    def attach(self, toxic: Poison) -> None:
        """Let a toxic act on what flows from now on, with its probability."""
        if self.wire.rng.random() >= toxic.toxicity:
            return
        stage = toxic.stage(self)
        self.stages.append((toxic, stage))
        self._relink()
        toxic.stats.connections += 1

    def detach(self, toxic: Poison) -> None:
        """The toxic acts no more; what it holds still comes through, in order."""
        for known, stage in list(self.stages):
            if known is toxic and not stage.released:
                stage.released = True
                stage.release()

    def splice(self, stage: Stage) -> None:
        self.stages = [item for item in self.stages if item[1] is not stage]
        self._relink()
        self.pressure()

    def cancel(self) -> None:
        for _, stage in self.stages:
            stage.cancel()
        self.stages, self.head = [], self.sink

    def pressure(self) -> None:
        """Read on, or no more, after something was held, passed on or taken by the sink."""
        stages = [stage for _, stage in self.stages]
        if self._reading:
            wanted = not self.sink_full and all(s.held < s.limit_bytes for s in stages)
        else:
            wanted = not self.sink_full and all(s.held <= s.limit_bytes // 2 for s in stages)
        if wanted != self._reading:
            self._reading = wanted
            self.wire.read_on(self, on=wanted)

    def _relink(self) -> None:
        following: Receiver = self.sink
        for _, stage in reversed(self.stages):
            stage.next = following
            following = stage
        self.head = following
