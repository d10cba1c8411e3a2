"""``net.retransmit``: TCP has to send again: segments of one direction disappear, seen by the kernel's counters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.fault import Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import space, tcpstat
from chaosflow.faults._net.drop import DropFault, look
from chaosflow.faults._net.place import Place
from chaosflow.linux.cbpf import Match


class NetRetransmit(DropFault):
    """Retransmission delay: a stream stalls for a retransmission timeout, then goes on where it was.

    Which flows: by ``ports`` and ``addresses``; which direction: ``side``, by default the responses.
    """

    kind: ClassVar[str] = "net.retransmit"
    cannot: ClassVar[str] = (
        "The counter is of the whole network namespace: what others there send again is counted as well"
    )

    percent: float = Field(10.0, gt=0, le=100)
    """Share of the segments that disappear; 100 = none of this direction arrives."""
    side: Literal["both", "to_target", "from_target"] = "from_target"
    protocol: Literal["tcp"] = "tcp"

    def narrow(self, match: Match) -> Match:
        return replace(match, share=self.percent / 100)

    def more(self, host: Host, place: Place) -> dict[str, Any]:
        with space.opened(place.netns, lock=False) as fd:
            return {"retransmitted_before": tcpstat.retransmitted(fd)}

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(_look, undo.state)


def _look(state: dict[str, Any]) -> Effect:
    effect = look(state)
    inode = state["steering"]["netns"] if "steering" in state else state["netns"]
    with space.opened(inode, lock=False) as fd:
        if not effect or fd is None:
            return effect
        again = tcpstat.retransmitted(fd) - int(state["retransmitted_before"])
    return Effect(True, f"{effect.evidence}, {again} segments sent again", met=effect.met and again > 0)
