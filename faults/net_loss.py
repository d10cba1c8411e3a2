"""``net.loss``: a share of the target's packets disappears, each by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from chaosflow.faults._net.drop import DropFault
from chaosflow.linux.cbpf import Match


class NetLoss(DropFault):
    """Random, independent loss that works without netem; for bursts use ``net.netem`` with ``gemodel``.

    Decides per packet as the kernel hands it over: with segmentation offload (always on ``lo``) one such
    packet holds up to 64 KiB of a TCP stream.
    """

    kind: ClassVar[str] = "net.loss"

    percent: float = Field(gt=0, le=100)

    def narrow(self, match: Match) -> Match:
        return replace(match, share=self.percent / 100)
