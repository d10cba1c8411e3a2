"""``proxy.limit_data``: connections are closed when so many bytes have come through."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting


class ProxyLimitData(ToxicFault):
    """A middlebox with a quota. Exactly the limit comes through, then both directions are closed (FIN)."""

    kind: ClassVar[str] = "proxy.limit_data"
    acts_on: ClassVar[str] = "bytes of open and new connections through the proxy, in order"
    cannot: ClassVar[str] = "With 0 the first byte closes the connection, not its opening."

    limit_bytes: int = Field(ge=0)
    """Of one connection, from its begin, or from the injection where it is open then."""
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        attributes = {"bytes": self.limit_bytes}
        return {"type": "limit_data", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        met, cuts = stats["connections"], int(stats.get("cuts", 0))
        if not met:
            return waiting(stats)
        text = f"{cuts} of {met} connections cut, {stats['bytes']} bytes came through"
        most = met * toxic["attributes"]["bytes"]
        if stats["bytes"] > most:
            return Effect(False, f"{text}: at most {most} asked")
        return Effect(True, text, met=cuts > 0)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyLimitData.look(undo)
