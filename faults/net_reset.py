"""``net.reset``: TCP connections of the target are reset in mid-stream, and new ones refused."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import space, steer
from chaosflow.faults._net.fault import NetFault, first_of, in_namespace, young
from chaosflow.linux import nft, tc
from chaosflow.linux.cbpf import match_from_json, match_to_json
from chaosflow.linux.netlink import NETFILTER, ROUTE, Netlink


class NetReset(NetFault):
    """Every packet that is met is answered with a TCP RST: both ends fail at once, at their next packet.

    A connection on which nothing is sent stays as it is.
    """

    kind: ClassVar[str] = "net.reset"
    undone_by: ClassVar[str] = "chaosflow heal, or nft delete table inet chaosflow-…"

    percent: float = Field(100.0, gt=0, le=100)
    """Share of the packets that are answered so; one is enough to end a connection."""
    direction: Literal["egress", "ingress", "both"] = "both"
    """Hooks of the stack, output and input, on this interface."""
    protocol: Literal["tcp"] = "tcp"

    def needs(self) -> Capability:
        return first_of(("nft reject with tcp reset", ("nft_reject",)))

    async def plan(self, host: Host, name: str) -> Undo:
        return await asyncio.to_thread(self._plan, host, name)

    def _plan(self, host: Host, name: str) -> Undo:
        thing = f"{self.kind} {name}"
        rung = self.needs()
        if not rung.ok:
            raise CapabilityError(thing, rung.reason, rung.remedy)
        place = self.place(host, thing)
        table = f"chaosflow-{steer.number_of(host.run_id, name):08x}"
        state = {
            "netns": place.netns,
            "interface": place.interface,
            "hooks": list(place.hooks),
            "table": table,
            "match": match_to_json(replace(place.match, share=self.percent / 100)),
            "began_ns": time.monotonic_ns(),
        }
        manual = in_namespace(host, [f"nft delete table inet {table}"])
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    async def inject(self, undo: Undo) -> None:
        await asyncio.to_thread(_inject, undo.state)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(_look, undo.state)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(_revert, undo.state)


def _inject(state: dict[str, Any]) -> None:
    with space.opened(state["netns"]) as fd:
        if fd is None:
            raise CapabilityError(
                "net.reset", "the target's network namespace is gone", "start the target first"
            )
        with Netlink(ROUTE, fd) as nl:
            link = tc.link(nl, state["interface"])
        if link is None:
            raise CapabilityError("net.reset", f"interface {state['interface']} has vanished")
        match = match_from_json(state["match"])
        chains, rules = [], []
        if "egress" in state["hooks"]:
            chains.append(nft.Chain("output", nft.LOCAL_OUT))
            rules += nft.rules_for(nft.INET, "output", match, nft.reset(), oif=link.index)
        if "ingress" in state["hooks"]:
            chains.append(nft.Chain("input", nft.LOCAL_IN))
            rules += nft.rules_for(nft.INET, "input", match, nft.reset(), iif=link.index)
        with Netlink(NETFILTER, fd) as nl:
            nft.create(nl, nft.INET, state["table"], chains, rules)


def _look(state: dict[str, Any]) -> Effect:
    with space.opened(state["netns"], lock=False) as fd:
        if fd is None:
            return Effect(False, "gone with 1 network namespace")
        with Netlink(NETFILTER, fd) as nl:
            counted = nft.counted(nl, nft.INET, state["table"])
    if counted is None:
        return Effect(False, f"0 rules in table {state['table']}")
    packets, rules = counted
    if not packets:
        return Effect(young(state), f"{rules} rules in place; 0 packets met them so far")
    return Effect(True, f"{packets} packets answered with a reset")


def _revert(state: dict[str, Any]) -> None:
    with space.opened(state["netns"]) as fd:
        if fd is not None:
            with Netlink(NETFILTER, fd) as nl:
                nft.delete(nl, nft.INET, state["table"])
