"""``proxy.slow_close``: the end of a connection comes through late."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting


class ProxySlowClose(ToxicFault):
    """A peer that closes and is not seen to: connections stay half open for a while. Bytes are not delayed."""

    kind: ClassVar[str] = "proxy.slow_close"
    acts_on: ClassVar[str] = "the end of a connection"
    cannot: ClassVar[str] = "Does not delay a reset."

    delay_ms: float = Field(gt=0, le=86_400_000)
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        attributes = {"delay": self.delay_ms}
        return {"type": "slow_close", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        closes = int(stats.get("closes", 0))
        if not stats["connections"]:
            return waiting(stats)
        return Effect(True, f"{closes} closes delayed on {stats['connections']} connections", met=closes > 0)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxySlowClose.look(undo)
