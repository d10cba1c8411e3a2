"""``proxy.bandwidth``: each connection between load and target passes at most so many KB a second."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting

_ENOUGH_S = 0.2


class ProxyBandwidth(ToxicFault):
    """A thin link per connection. What does not fit waits: in the proxy (64 KiB), then at the sender."""

    kind: ClassVar[str] = "proxy.bandwidth"
    acts_on: ClassVar[str] = "bytes of open and new connections through the proxy, in order"
    cannot: ClassVar[str] = "The rate is not shared between connections."

    rate_kbytes_per_s: float = Field(gt=0, le=1e9)
    """1 KB = 1000 bytes."""
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    def toxic(self) -> dict[str, Any]:
        attributes = {"rate": self.rate_kbytes_per_s}
        return {"type": "bandwidth", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        rate, busy_s = stats["achieved_rate"], stats.get("busy_s", 0.0)
        if not rate:
            return waiting(stats)
        wanted = toxic["attributes"]["rate"]
        text = f"{rate:.3g} KB/s while bytes waited ({busy_s:.2f} s), at most {wanted:g} asked"
        if busy_s > _ENOUGH_S and rate > 1.2 * wanted:
            return Effect(False, f"{text}: faster than the limit")
        return Effect(True, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyBandwidth.look(undo)
