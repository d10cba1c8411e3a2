"""An event loop in a thread of its own, and how the tests' thread waits for it.

The suite's own thread may have a loop already (pytest-asyncio, Playwright), and what ChaosFlow watches must go
on while a test's body runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Looper:
    """The thread lives until ``close``: helper processes die with the thread that started them."""

    def __init__(self) -> None:
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaosflow", daemon=True)
        self._thread.start()
        self._up.wait()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._up.set()
        await self._end.wait()

    def call(self, work: Coroutine[Any, Any, T], on_interrupt: Callable[[], None] | None = None) -> T:
        """Do it there and wait. An interrupt waits until it is done: what undoes is never cut short.

        ``on_interrupt`` is called there, once, so that the work can come to its end sooner.
        """
        with _Patience(lambda: self._ask(on_interrupt)):
            return self._wait(asyncio.run_coroutine_threadsafe(work, self._loop), on_interrupt)

    def _ask(self, on_interrupt: Callable[[], None] | None) -> None:
        if on_interrupt is not None:
            self._loop.call_soon_threadsafe(on_interrupt)

    def _wait(self, future: concurrent.futures.Future[T], on_interrupt: Callable[[], None] | None) -> T:
        alarm: BaseException | None = None
        while True:
            try:
                result = future.result()
            except BaseException as e:
                if future.done() and _raised(future) is e:
                    if alarm is None:
                        raise
                    raise alarm from e
                if alarm is None:  # pytest-timeout raises out of a signal of its own
                    alarm = e
                    self._ask(on_interrupt)
            else:
                if alarm is not None:
                    raise alarm
                return result

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


class _Patience:
    """Keeps Ctrl-C back while the block runs, and lets it through at its end: however often it was pressed."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._pressed = 0
        self._before: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._pressed += 1
        if self._pressed == 1:
            self._on_first()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            return
        signal.signal(signal.SIGINT, self._before)
        if self._pressed:
            self._before(signal.SIGINT, None)  # raises KeyboardInterrupt, as a rule


def _raised(future: concurrent.futures.Future[Any]) -> BaseException | None:
    return None if future.cancelled() else future.exception()
