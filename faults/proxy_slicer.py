"""``proxy.slicer``: bytes come in small pieces, with pauses between them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting


class ProxySlicer(ToxicFault):
    """A path with a tiny MTU, or a relay that writes byte by byte. Readers that take one read for one event break."""

    kind: ClassVar[str] = "proxy.slicer"
    acts_on: ClassVar[str] = "bytes of open and new connections through the proxy, in order"
    cannot: ClassVar[str] = "A receiver that reads late gets several pieces in one read."

    average_bytes: int = Field(ge=1)
    variation_bytes: int = Field(0, ge=0)
    """Sizes are uniform within average ± variation."""
    delay_us: int = Field(0, ge=0, le=3_600_000_000)
    """Pause between two pieces."""
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    @model_validator(mode="after")
    def _variation_fits(self) -> Self:
        if self.variation_bytes and self.variation_bytes >= self.average_bytes:
            raise ValueError(
                f"variation_bytes {self.variation_bytes} is not less than average_bytes {self.average_bytes}: "
                f"a piece has at least one byte"
            )
        return self

    def toxic(self) -> dict[str, Any]:
        attributes = {
            "average_size": self.average_bytes,
            "size_variation": self.variation_bytes,
            "delay": self.delay_us,
        }
        return {"type": "slicer", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        pieces = int(stats.get("pieces", 0))
        if not pieces:
            return waiting(stats)
        wanted = toxic["attributes"]
        mean = stats["bytes"] / pieces
        text = f"{pieces} pieces of {mean:.1f} bytes on average, {wanted['average_size']} asked"
        return Effect(mean <= wanted["average_size"] + wanted["size_variation"], text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxySlicer.look(undo)
