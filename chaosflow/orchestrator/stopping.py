"""How a run comes to its end: one event, set once, that every wait of the run looks at.

Nothing is ever cancelled in the middle of an inject or a revert: a signal only asks the run to
go to its undo, so a second Ctrl-C cannot interrupt what the first one began.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from chaosflow.core.clock import NS_PER_S, Clock

T = TypeVar("T")


class Why(Enum):
    """What ended the run."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    TERMINATED = "terminated"
    ABORTED = "aborted"
    BAD_BASELINE = "no steady state"
    NOT_CONFIRMED = "a fault was not confirmed"
    KILLED = "killed"
    """Only found out afterwards, by whoever rebuilds the result."""
    CUT = "the code that it ran beside gave up"
    LOST = "part of the measurement was lost"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class End:
    why: Why
    text: str


class Stopped(Exception):
    """A wait was given up because the run is to end."""


class Stop:
    """Set once; the first reason counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self.end: End | None = None
        self.signals = 0

    def ask(self, why: Why, text: str) -> None:
        """Ask the run to undo everything and end. Does not wait."""
        if self.end is None:
            self.end = End(why, text)
            self._event.set()

    @property
    def asked(self) -> bool:
        return self.end is not None

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep_until(self, when_ns: int) -> bool:
        """True when the time came, False when the run is to end first."""
        while (left := when_ns - self._clock.now_ns()) > 0:
            try:
                await asyncio.wait_for(self._event.wait(), left / NS_PER_S)
            except TimeoutError:
                continue
            return False
        return not self.asked

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``; Stopped, and ``work`` cancelled, when the run is to end first."""
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Stopped
        finally:
            waiter.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, waiter, return_exceptions=True)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """SIGINT, SIGTERM and SIGHUP ask the run to end; repeated ones change nothing."""
        for number, why in (
            (signal.SIGINT, Why.INTERRUPTED),
            (signal.SIGTERM, Why.TERMINATED),
            (signal.SIGHUP, Why.TERMINATED),
        ):
            loop.add_signal_handler(number, self._on_signal, number, why)

    def _on_signal(self, number: signal.Signals, why: Why) -> None:
        self.signals += 1
        self.ask(why, f"{why.value} by {number.name}")
