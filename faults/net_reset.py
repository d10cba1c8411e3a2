"""``net.reset``: TCP connections of the target are reset in mid-stream, and new ones refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import space, steer
from chaosflow.faults._net.fault import NetFault, first_of, in_namespace
from chaosflow.linux import nft, sockdiag, tc
from chaosflow.linux.cbpf import Match, match_from_json, match_to_json
from chaosflow.linux.netlink import NETFILTER, ROUTE, SOCK_DIAG, Netlink

REJECT_RUNG, DESTROY_RUNG = "nft reject with tcp reset", "open connections by SOCK_DESTROY"
_Ends = frozenset[tuple[sockdiag.Address, int]]
"""Both ends of a connection, in no order."""


class NetReset(NetFault):
    """Open connections are reset at both ends at once; later packets are answered with a TCP RST.

    A packet's answer reaches its sender alone: a client that only waits for tokens would never hear of it.
    So connections open at the injection are ended by the kernel (SOCK_DESTROY; the target's end sees
    ECONNABORTED), also where nothing is sent; but not with ``percent`` below 100, one ``side`` alone, or
    ``unfiltered``.
    """

    kind: ClassVar[str] = "net.reset"
    acts_on: ClassVar[str] = (
        "packets from and to the target's port at one interface, and connections open there, in the target's network "
        "namespace"
    )
    requires: ClassVar[str] = (
        "root (CAP_NET_ADMIN and CAP_SYS_ADMIN); nf_tables with nft_reject_inet; CONFIG_INET_DIAG_DESTROY to end open "
        "connections at both ends"
    )
    undone_by: ClassVar[str] = "chaosflow heal, or nft delete table inet chaosflow-…"

    cannot: ClassVar[str] = (
        "Only with `percent: 100` and both sides are open connections ended at both ends at once, and only where "
        "the kernel has SOCK_DESTROY; else only the sender of a packet is told, and a client that waits for tokens "
        "hears nothing"
    )

    percent: float = Field(100.0, gt=0, le=100)
    """Share of the packets that are answered so; one is enough to end a connection."""
    direction: Literal["egress", "ingress", "both"] = "both"
    """Hooks of the stack, output and input, on this interface."""
    protocol: Literal["tcp"] = "tcp"

    def needs(self) -> Capability:
        found = first_of((REJECT_RUNG, ("nft_reject",)))
        return Capability.yes(f"{REJECT_RUNG}, {DESTROY_RUNG}") if found.ok and _can_destroy() else found

    async def plan(self, host: Host, name: str) -> Undo:
        return await asyncio.to_thread(self._plan, host, name)

    def _plan(self, host: Host, name: str) -> Undo:
        thing = f"{self.kind} {name}"
        rung = self.needs()
        if not rung.ok:
            raise CapabilityError(thing, rung.reason, rung.remedy)
        place = self.place(host, thing)
        table = steer.table_of(host.run_id, name)
        state = {
            "netns": place.netns,
            "interface": place.interface,
            "hooks": list(place.hooks),
            "table": table,
            "match": match_to_json(replace(place.match, share=self.percent / 100)),
            "ends_open": DESTROY_RUNG in rung.rung and self._means_whole_connections(place.match),
        }
        manual = in_namespace(host, [f"nft delete table inet {table}"])
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    def _means_whole_connections(self, match: Match) -> bool:
        return self.percent == 100 and self.side == "both" and bool(match.target.ports)

    async def inject(self, undo: Undo) -> None:
        # for the looks of this process only: the journal's copy is of before
        undo.state["ended"] = await asyncio.to_thread(_inject, undo.state)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(_look, undo.state)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(_revert, undo.state)


def _inject(state: dict[str, Any]) -> int:
    """How many open connections were ended."""
    ended: set[_Ends] = set()
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
        if state["ends_open"]:  # before the rules too, or they would answer the target's end alone
            ended |= _end_open(fd, link.index, match)
        with Netlink(NETFILTER, fd) as nl:
            nft.create(nl, nft.INET, state["table"], chains, rules)
        if state["ends_open"]:  # what was opened meanwhile
            ended |= _end_open(fd, link.index, match)
    return len(ended)


def _end_open(fd: int, interface: int, match: Match) -> set[_Ends]:
    """The connections that were ended; where both ends live here, one and not two."""
    ended: set[_Ends] = set()
    with Netlink(SOCK_DIAG, fd) as diag, Netlink(ROUTE, fd) as route:
        for connection in sockdiag.matching(diag, match):
            if tc.route_link(route, str(connection.remote[0])) == interface and sockdiag.destroy(
                diag, connection
            ):
                ended.add(frozenset((connection.local, connection.remote)))
    return ended


@cache
def _can_destroy() -> bool:
    """Asked once per process, of the namespace we are in. Ends nothing."""
    with Netlink(SOCK_DIAG) as nl:
        return sockdiag.can_destroy(nl)


def _look(state: dict[str, Any]) -> Effect:
    with space.opened(state["netns"], lock=False) as fd:
        if fd is None:
            return Effect(False, "gone with 1 network namespace")
        with Netlink(NETFILTER, fd) as nl:
            counted = nft.counted(nl, nft.INET, state["table"])
    if counted is None:
        return Effect(False, f"0 rules in table {state['table']}")
    packets, rules = counted
    ended = int(state.get("ended", 0))
    text = f"{packets} packets answered with a reset by {rules} rules"
    if state["ends_open"]:
        text += f", {ended} open connections ended"
    return Effect(True, text, met=packets + ended > 0)


def _revert(state: dict[str, Any]) -> None:
    with space.opened(state["netns"]) as fd:
        if fd is not None:
            with Netlink(NETFILTER, fd) as nl:
                nft.delete(nl, nft.INET, state["table"])
