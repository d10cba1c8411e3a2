"""An interrupt waits until what undoes has been done."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from chaosflow.pytest_plugin.looper import Looper


@pytest.fixture
def looper() -> Iterator[Looper]:
    made = Looper()
    yield made
    made.close()


def test_results_and_errors_come_back(looper: Looper) -> None:
    async def work(fail: bool) -> int:
        await asyncio.sleep(0)
        if fail:
            raise ValueError("its own")
        return 7

    assert looper.call(work(False)) == 7
    with pytest.raises(ValueError, match="its own"):
        looper.call(work(True))


def test_it_works_where_a_loop_is_running_already(looper: Looper) -> None:
    async def outer() -> int:
        return looper.call(asyncio.sleep(0, 5))

    assert asyncio.run(outer()) == 5


def test_ctrl_c_twice_asks_once_and_waits_for_the_end(looper: Looper) -> None:
    """chaostoolkit-lib 133: a signal during rollback aborted the rest."""
    asked: list[str] = []
    done = threading.Event()

    async def undo() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
        done.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            looper.call(undo(), on_interrupt=lambda: asked.append("stop"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.is_set()
    assert asked == ["stop"]


def test_an_alarm_of_a_timeout_waits_too(looper: Looper) -> None:
    """pytest-timeout raises out of its signal handler, wherever the thread is."""
    done = threading.Event()

    def on_alarm(number: int, frame: object) -> None:
        raise TimeoutError("too long")

    async def undo() -> None:
        os.kill(os.getpid(), signal.SIGALRM)
        await asyncio.sleep(0.1)
        done.set()

    async def work() -> None:
        await asyncio.sleep(0.1)  # the wait has begun by then
        await undo()

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with pytest.raises(TimeoutError, match="too long"):
            looper.call(work())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done.is_set()
