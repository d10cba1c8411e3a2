"""What the atoms that act through helper processes share: start them, look at what they do, end them."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any, ClassVar

from chaosflow.core.fault import Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.linux import stressor
from chaosflow.linux.stressor import Worker

FRESH_S = 5.0
"""A report older than this is of a helper that stands still."""


class StressFault(FaultAtom):
    """A fault that lasts as long as its helpers do, each one ``commands`` says.

    A subclass judges by ``judge`` what the helpers did. They die with the process that injects.
    """

    composes: ClassVar[bool] = True
    undone_by: ClassVar[str] = "kill -KILL of every process with CHAOSFLOW_FAULT=RUN/NAME in its environment"
    dies_with_us: ClassVar[bool] = True
    """A kill -9 of the injecting process alone ends it."""

    @abstractmethod
    def commands(self, host: Host) -> list[list[str]]:
        """One for each helper. Reads only."""

    def ready_within_s(self) -> float:
        """How long the helpers may take to get to work."""
        return 15.0

    @staticmethod
    @abstractmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        """Whether the living helpers do what was asked (``wanted`` = the params)."""

    async def plan(self, host: Host, name: str) -> Undo:
        state = {
            **stressor.plan(host.run_id, name, self.commands(host)),
            "wanted": self.model_dump(),
        }
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=stressor.manual(state))

    async def inject(self, undo: Undo) -> None:
        await stressor.start(undo.state, self.ready_within_s())

    @classmethod
    def look(cls, undo: Undo) -> Effect:
        """Active when all helpers live and what they do is what was asked."""
        alive, asked = stressor.workers(undo.state), len(undo.state["commands"])
        if not alive:
            return Effect(False, f"0 of {asked} helpers alive")
        effect = cls.judge(undo.state["wanted"], alive)
        if len(alive) < asked:
            return Effect(False, f"{len(alive)} of {asked} helpers alive; {effect.evidence}")
        return effect

    @staticmethod
    async def revert(undo: Undo) -> None:
        await stressor.end(undo.state)


def program(name: str, *arguments: object) -> list[str]:
    """The command of one of the programs in this folder."""
    return [sys.executable, "-P", "-m", f"chaosflow.faults._stress.{name}", *map(str, arguments)]
