"""The users of a locustfile as the load of a run: what they are, and what becomes of their mistakes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from chaosflow.load.user import Carry

_MOST_TOLD = 3


class LocustUsers:
    """``note`` what a person should know; ``fail`` ends the worker and says why."""

    def __init__(
        self,
        kinds: Sequence[type[Any]],
        environment: Any,
        *,
        note: Callable[[str], None],
        fail: Callable[[str], NoReturn],
    ) -> None:
        """``kinds``: each class as often as its ``weight`` says; ``environment`` is Locust's."""
        self._kinds, self._environment = kinds, environment
        self._note, self._fail = note, fail
        self._told: set[str] = set()
        environment.events.user_error.add_listener(self._erred)
        # each error with its stack, for as long as the run goes on, would fill the disk: we write it down once
        logging.getLogger("locust.user.task").setLevel(logging.CRITICAL)

    def run(self, number: int, carry: Carry) -> None:
        """All that user ``number`` does; returns when it stops by its own will, or where ``carry`` stops it.

        One that breaks ends the worker: fewer users than were asked for are not the load that was asked for.
        """
        try:
            user = self._kinds[number % len(self._kinds)](self._environment)
            user.carry = carry
            user.run()
        except Exception as e:
            traceback.print_exc()
            self._fail(f"load.locustfile: user {number} broke: {_named(e)}; try it with locust -f first")

    def _erred(self, user_instance: Any, exception: BaseException, tb: Any, **_: Any) -> None:
        """Locust's event: a task raised, and its user goes on with the next."""
        text = _named(exception)
        if text in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(text)
        traceback.print_exception(type(exception), exception, tb)
        self._note(f"load.locustfile: a user raised {text}; the stack is in the load's log")


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
