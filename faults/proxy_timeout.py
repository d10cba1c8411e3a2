"""``proxy.timeout``: nothing comes through, and after a time the connection is closed."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault

_SLACK_S = 1.0


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
        met, closed, held = stats["connections"], int(stats.get("timeouts", 0)), stats["held_bytes"]
        if not met:
            return Effect(True, "installed; no traffic seen yet")
        text = f"{closed} of {met} connections closed, {held} bytes waiting"
        after_s = toxic["attributes"]["timeout"] / 1000
        if stats["bytes"] or (
            after_s and not closed and not held and stats["installed_s"] > after_s + _SLACK_S
        ):
            return Effect(False, f"{text}: {stats['bytes']} bytes came through, or none lived {after_s:g} s")
        return Effect(True, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyTimeout.look(undo)
