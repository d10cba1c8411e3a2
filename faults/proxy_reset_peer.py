"""``proxy.reset_peer``: connections end with a TCP RST, in mid-stream too."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import ToxicFault, waiting


class ProxyResetPeer(ToxicFault):
    """A middlebox or a crashing load balancer that forgets its connections: both ends see a reset.

    Open connections count from the injection, later ones from their begin. After the revert new ones live.
    """

    kind: ClassVar[str] = "proxy.reset_peer"
    acts_on: ClassVar[str] = "a TCP RST at both ends, in mid-stream too"
    cannot: ClassVar[str] = "Cannot reset a connection that ended before its time."

    after_ms: float = Field(0, ge=0, le=86_400_000)
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        return {
            "type": "reset_peer",
            "toxicity": self.toxicity,
            "attributes": {"timeout": self.after_ms},
        }

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        met, resets = stats["connections"], int(stats.get("resets", 0))
        after_s = toxic["attributes"]["timeout"] / 1000
        if not met:
            return waiting(stats)
        text = f"{resets} of {met} connections reset"
        if not resets:  # all may have ended by themselves before their time
            return Effect(True, f"{text}: none lived {after_s:g} s", met=False)
        return Effect(True, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyResetPeer.look(undo)
