"""The nested parameters of ``net.netem``: two models of loss in bursts, and slots."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Percent = Annotated[float, Field(ge=0, le=100)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GeModel(_Part):
    """Gilbert-Elliott: two states, each with its own loss. Mean burst of lost packets ~ 1/r where bad loses all."""

    p_percent: float = Field(gt=0, le=100)
    """From good to bad, per packet."""
    r_percent: float = Field(gt=0, le=100)
    """From bad to good."""
    loss_in_bad_percent: Percent = 100.0
    loss_in_good_percent: Percent = 0.0

    def shares(self) -> tuple[float, float, float, float]:
        """p, r, 1-h and 1-k, from 0 to 1."""
        return (
            self.p_percent / 100,
            self.r_percent / 100,
            self.loss_in_bad_percent / 100,
            self.loss_in_good_percent / 100,
        )


class StateModel(_Part):
    """Four states, 1 received in a gap, 3 lost in a burst, 2 received in a burst, 4 lost alone (netem's ``state``)."""

    p13_percent: Percent
    p31_percent: Percent = 100.0
    p32_percent: Percent = 0.0
    p23_percent: Percent = 100.0
    p14_percent: Percent = 0.0

    def shares(self) -> tuple[float, float, float, float, float]:
        """p13, p31, p32, p23 and p14, from 0 to 1."""
        return (
            self.p13_percent / 100,
            self.p31_percent / 100,
            self.p32_percent / 100,
            self.p23_percent / 100,
            self.p14_percent / 100,
        )


class Slot(_Part):
    """Packets leave in slots only, as on a shared radio or cable network."""

    min_ms: float = Field(ge=0, le=60_000)
    max_ms: float = Field(gt=0, le=60_000)
    packets: int = Field(0, ge=0)
    """Most per slot; 0 = any number."""
    kbytes: int = Field(0, ge=0, le=2_000_000)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_ms > self.max_ms:
            raise ValueError("min_ms is greater than max_ms")
        return self
