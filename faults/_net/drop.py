"""Faults that make packets disappear without a word to anybody, as a wire does."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import space, steer
from chaosflow.faults._net.fault import NetFault, first_of, in_namespace
from chaosflow.faults._net.place import Place
from chaosflow.linux import nft, tc
from chaosflow.linux.cbpf import Match, match_from_json, match_to_json
from chaosflow.linux.netlink import NETFILTER, ROUTE, Netlink

BPF_RUNG = "tc cls_bpf into a blackhole"
NFT_RUNG = "nft netdev drop"
_NFT_HOOKS = {"egress": nft.NETDEV_EGRESS, "ingress": nft.NETDEV_INGRESS}


class DropFault(NetFault):
    """Drops what ``narrow`` says of the packets that the filter means; the sender sees no error."""

    requires: ClassVar[str] = (
        "root (CAP_NET_ADMIN and CAP_SYS_ADMIN); nf_tables, or cls_bpf, sch_ingress, act_mirred, ifb and sch_blackhole"
    )
    cannot: ClassVar[str] = "Other clients of that port on that interface meet it too"

    @abstractmethod
    def narrow(self, match: Match) -> Match:
        """Which of the filtered packets disappear."""

    def needs(self) -> Capability:
        return self.rung_at(self.interface or "lo")

    def rung_at(self, interface: str) -> Capability:
        """nft disturbs nobody, but only at ingress it is silent; making a clsact costs a bystander packets."""
        bpf, by_nft = (BPF_RUNG, ("steer", "blackhole")), (NFT_RUNG, ("nft_netdev",))
        silent = interface == "lo" or self.direction == "ingress"
        return first_of(by_nft, bpf) if silent else first_of(bpf, by_nft)

    async def plan(self, host: Host, name: str) -> Undo:
        return await asyncio.to_thread(self._plan, host, name)

    def _plan(self, host: Host, name: str) -> Undo:
        thing = f"{self.kind} {name}"
        place = self.place(host, thing)
        rung = self.rung_at(place.interface)
        if not rung.ok:
            raise CapabilityError(thing, rung.reason, rung.remedy)
        place = replace(place, match=self.narrow(place.match))
        state: dict[str, Any] = {"rung": rung.rung, **self.more(host, place)}
        if rung.rung == BPF_RUNG:
            with space.opened(place.netns) as fd, Netlink(ROUTE, fd) as nl:
                steering = steer.plan(nl, place, steer.DROP_PREF, (host.run_id, name))
            state["steering"] = steering.to_json()
            commands = steer.manual(steering)
        else:
            table = steer.table_of(host.run_id, name)
            state |= {
                "netns": place.netns,
                "table": table,
                "interface": place.interface,
                "hooks": list(place.hooks),
                "match": match_to_json(place.match),
            }
            commands = [f"nft delete table netdev {table}"]
        return Undo(
            kind=self.kind, name=name, run_id=host.run_id, state=state, manual=in_namespace(host, commands)
        )

    def more(self, host: Host, place: Place) -> dict[str, Any]:
        """What a subclass wants to remember of the state before. Reads only."""
        return {}

    async def inject(self, undo: Undo) -> None:
        await asyncio.to_thread(self._inject, undo.state)

    def _inject(self, state: dict[str, Any]) -> None:
        if "steering" in state:
            steering = steer.Steering.from_json(state["steering"])
            with space.opened(steering.netns) as fd:
                fd = _require(fd, self.kind)
                with steer.sockets(fd, steering) as (nl, rules):
                    steer.lead(nl, rules, steering, _blackhole)
            return
        with space.opened(state["netns"]) as fd:
            _require(fd, self.kind)
            with Netlink(NETFILTER, fd) as nl:
                self._make_table(nl, state)

    def _make_table(self, nl: Netlink, state: dict[str, Any]) -> None:
        match = match_from_json(state["match"])
        # what leaves by lo comes in by lo, where nobody is told of a drop
        hooks = {h: "ingress" if state["interface"] == "lo" else h for h in state["hooks"]}
        chains = [nft.Chain(h, _NFT_HOOKS[at], state["interface"], steer.FIRST) for h, at in hooks.items()]
        rules = [r for c in chains for r in nft.rules_for(nft.NETDEV, c.name, match, nft.drop())]
        nft.create(nl, nft.NETDEV, state["table"], chains, rules)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(look, undo.state)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(_revert, undo.state)


def look(state: dict[str, Any]) -> Effect:
    """Whether the fault is in place, and how many packets it took."""
    if "steering" in state:
        steering = steer.Steering.from_json(state["steering"])
        with space.opened(steering.netns, lock=False) as fd:
            if fd is None:
                return Effect(False, "gone with 1 network namespace")
            with steer.sockets(fd, steering) as (nl, rules):
                seen = steer.look(nl, rules, steering)
        in_place, of, packets = seen.in_place, len(steering.ifbs), seen.packets
    else:
        with space.opened(state["netns"], lock=False) as fd:
            if fd is None:
                return Effect(False, "gone with 1 network namespace")
            with Netlink(NETFILTER, fd) as nl:
                counted = nft.counted(nl, nft.NETDEV, state["table"])
        of = len(state["hooks"])
        in_place, packets = (0, 0) if counted is None else (of, counted[0])
    if in_place < of:
        return Effect(False, f"in place at {in_place} of {of} hooks")
    return Effect(True, f"{packets} packets dropped at {of} hooks", met=packets > 0)


def _revert(state: dict[str, Any]) -> None:
    if "steering" in state:
        steering = steer.Steering.from_json(state["steering"])
        with space.opened(steering.netns) as fd:
            if fd is not None:
                with steer.sockets(fd, steering) as (nl, rules):
                    steer.stop_leading(nl, rules, steering)
                    steer.clean_up(nl, steering)
        return
    with space.opened(state["netns"]) as fd:
        if fd is not None:
            with Netlink(NETFILTER, fd) as nl:
                nft.delete(nl, nft.NETDEV, state["table"])


def _blackhole(nl: Netlink, ifb: int, new: bool) -> list[Any]:
    if not new and tc.qdisc(nl, ifb, 0x10000):
        return []
    return [tc.qdisc_message(ifb, "blackhole", 0x10000, tc.ROOT, b"")]


def _require(fd: int | None, kind: str) -> int:
    if fd is None:
        raise CapabilityError(kind, "the target's network namespace is gone", "start the target first")
    return fd
