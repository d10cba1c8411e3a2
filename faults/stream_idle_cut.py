"""``stream.idle_cut``: a balancer's idle timeout: connections on which nothing moves are cut."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import ToxicFault


class StreamIdleCut(ToxicFault):
    """Cuts streams whose first token, or next one, takes too long, and idle kept connections alike.

    Bytes of either direction count as movement; open connections count from the injection at the earliest.
    """

    kind: ClassVar[str] = "stream.idle_cut"
    acts_on: ClassVar[str] = "connections on which no byte moves"
    cannot: ClassVar[str] = "Where nothing is idle for so long, nothing is cut."

    idle_ms: float = Field(gt=0, le=86_400_000)
    reset: bool = False
    """By RST instead of FIN."""
    probability: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        attributes = {"idle": self.idle_ms, "reset": self.reset}
        return {"type": "idle_cut", "toxicity": self.probability, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        """Active also while nothing has been idle for so long: then there is nothing to cut."""
        cuts, met = int(stats.get("cuts", 0)), stats["connections"]
        text = f"{cuts} of {met} connections cut, idle for {toxic['attributes']['idle']:g} ms"
        return Effect(True, text, met=met > 0)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await StreamIdleCut.look(undo)
