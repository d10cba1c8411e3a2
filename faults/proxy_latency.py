"""``proxy.latency``: bytes between load and target arrive later, with jitter, in order."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaosflow.core.fault import Effect, Undo
from chaosflow.faults._toxic import Direction, ToxicFault, waiting

_ENOUGH = 30
_TOO_MUCH_MS = 20


class ProxyLatency(ToxicFault):
    """A slow network path on the proxy. TCP keeps its order, so no jitter reorders anything.

    Does not delay the TCP handshake. ``both`` delays each way: twice per round trip.
    """

    kind: ClassVar[str] = "proxy.latency"
    acts_on: ClassVar[str] = "bytes of open and new connections through the proxy, in order"

    delay_ms: float = Field(gt=0, le=600_000)
    jitter_ms: float = Field(0, ge=0)
    """``uniform``: delay ± jitter (sd = jitter/√3); ``normal``: the standard deviation."""
    distribution: Literal["uniform", "normal"] = "uniform"
    direction: Direction = "downstream"
    toxicity: float = Field(1.0, gt=0, le=1)
    """Share of the connections that it acts on."""

    @model_validator(mode="after")
    def _jitter_fits(self) -> Self:
        if self.jitter_ms > self.delay_ms:
            raise ValueError(
                f"jitter_ms {self.jitter_ms:g} is more than delay_ms {self.delay_ms:g}: "
                f"bytes cannot arrive before they were sent; lower jitter_ms or raise delay_ms"
            )
        return self

    def toxic(self) -> dict[str, Any]:
        attributes = {
            "latency": self.delay_ms,
            "jitter": self.jitter_ms,
            "distribution": self.distribution,
        }
        return {"type": "latency", "toxicity": self.toxicity, "attributes": attributes}

    @classmethod
    def judge(cls, toxic: dict[str, Any], stats: dict[str, Any]) -> Effect:
        if not stats["delayed"]:
            return waiting(stats)
        wanted, sd = toxic["attributes"]["latency"], stats["requested_sd_ms"]
        mean, achieved_sd, n = stats["delay_mean_ms"], stats["delay_sd_ms"], stats["delayed"]
        asked = f"{wanted:g} ± {sd:.3g}" if sd else f"{wanted:g}"
        text = f"{mean:.1f} ± {achieved_sd:.1f} ms (mean ± sd) on {n} chunks, {asked} ms asked"
        if n < _ENOUGH:
            return Effect(True, text)
        if mean < wanted - max(1.0, 0.2 * wanted) or mean > 2 * wanted + _TOO_MUCH_MS:
            return Effect(False, f"{text}: the mean is not what was asked")
        if achieved_sd < sd / 2:
            return Effect(False, f"{text}: less than half the jitter asked")
        return Effect(True, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await ProxyLatency.look(undo)
