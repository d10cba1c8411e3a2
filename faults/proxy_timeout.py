"""``proxy.timeout``: nothing comes through, and after a time the connection is closed."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting


class ProxyTimeout(ToxicFault):
    """A link that is dead though connected. The time runs while bytes come: no byte sets it back.

    Without ``after_ms`` bytes wait until the revert, in the proxy (64 KiB) and at the sender, and none is lost.
    A connection that is closed loses what waited.
    """

    kind: ClassVar[str] = "proxy.timeout"
    acts_on: ClassVar[str] = "what comes through, and then the connection (FIN at both ends)"

    after_ms: float | None = Field(None, gt=0, le=86_400_000)
    """Open connections count from the injection, later ones from their begin; without it none is closed."""
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        attributes = {"timeout": self.after_ms or 0}
        return {"type": "timeout", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        met, closed, stopped = (
            stats["connections"],
            int(stats.get("timeouts", 0)),
            int(stats.get("stopped_bytes", 0)),
        )
        if not met:
            return waiting(stats)
        text = f"{closed} of {met} connections closed, {stopped} bytes stopped"
        if stats["bytes"]:
            return Effect(False, f"{text}: {stats['bytes']} bytes came through")
        return Effect(True, text, met=bool(closed or stopped))

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyTimeout.look(undo)
