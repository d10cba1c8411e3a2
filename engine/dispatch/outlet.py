"""A bounded queue between the step loop and one client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chaosflow.engine.dispatch.stop import StopFilter

LIMIT = 256
"""Tokens a client may lag behind before its sequence is left out of the batch."""


class Outlet:
    """Takes texts from the step loop at once, gives them out in order. One reader."""

    def __init__(self, stops: tuple[str, ...] = (), limit: int = LIMIT) -> None:
        self.reason = ""
        """``length`` or ``stop`` once finished."""
        self.tokens = 0
        self.on_stop: Callable[[], None] = _nothing
        """Called from ``push`` when a stop string was met; must finish the sequence."""
        self.on_room: Callable[[], None] = _nothing
        """Called when a full outlet has been read empty."""
        self._limit = limit
        self._texts: list[str] = []
        self._filter = StopFilter(stops) if stops else None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def full(self) -> bool:
        return len(self._texts) >= self._limit

    def push(self, text: str) -> None:
        """One token. With stop strings its text may be held back, or end the stream."""
        if self.tokens == 0:
            text = text.lstrip(" ")
        self.tokens += 1
        if self._filter is not None:
            text = self._filter.feed(text)
        if text:
            self._texts.append(text)
            self._notify()
        if self._filter is not None and self._filter.met:
            self.on_stop()

    def finish(self, reason: str) -> None:
        if self._filter is not None and not self._filter.met and (rest := self._filter.rest()):
            self._texts.append(rest)
        self.reason = reason
        self._notify()

    async def read(self) -> list[str]:
        """All texts that are there, waiting for at least one; [] = finished and read empty."""
        while not self._texts and not self.reason:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        was_full, texts, self._texts = self.full, self._texts, []
        if was_full:
            self.on_room()
        return texts

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _nothing() -> None:
    pass
