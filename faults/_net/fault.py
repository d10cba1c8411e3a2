"""What the parameters of all network faults have in common, and how their atoms reach a namespace."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.core.host import Host
from chaosflow.faults._net import space, steer
from chaosflow.faults._net.abilities import abilities
from chaosflow.faults._net.place import Place, Wanted, find_place

Port = Annotated[int, Field(ge=1, le=65535)]


class NetFault(FaultAtom):
    """Acts on the packets of the target: its port at its interface, in its network namespace."""

    composes: ClassVar[bool] = True
    acts_on: ClassVar[str] = (
        "packets from and to the target's port at one interface, in the target's network namespace, by a filter of "
        "ChaosFlow's own; no root qdisc is touched"
    )
    undone_by: ClassVar[str] = "chaosflow heal, or tc filter del and ip link del of the devices named cf…"

    direction: Literal["egress", "ingress", "both"] = "egress"
    """The hook of the interface. On ``lo`` both packets of a round trip pass either hook."""
    side: Literal["both", "to_target", "from_target"] = "both"
    """Requests, responses, or both."""
    interface: str | None = Field(None, min_length=1, max_length=15)
    """Default: the one by which packets to the target leave; in a container the default route's."""
    protocol: Literal["any", "tcp", "udp", "icmp", "icmpv6"] = "any"
    ports: tuple[Port, ...] = Field((), max_length=64)
    """Of the target's end; default: the port in the target's url."""
    addresses: tuple[str, ...] = Field((), max_length=64)
    """Of the target's end, networks too; default: any on ``lo``, else the target's."""
    unfiltered: bool = False
    """Mean every packet, whatever its port; refused on the default route's interface."""
    exclude_ports: tuple[Port, ...] = Field((), max_length=64)
    exclude_addresses: tuple[str, ...] = Field((), max_length=64)
    """Packets with such an end are let go by. The SSH session in use always is."""

    @field_validator("addresses", "exclude_addresses")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            ipaddress.ip_network(item, strict=False)
        return value

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"net:{self.interface or 'target'}:{self.direction}"})

    def needs(self) -> Capability:
        """Which rung this kernel has for it, or why it has none."""
        raise NotImplementedError

    def check(self, host: Host) -> Capability:
        capability = self.needs()
        if not capability.ok or (host.planning and not host.target.processes and host.target.included):
            return capability
        try:
            self.place(host, self.kind)
        except (CapabilityError, OSError) as e:
            return Capability.no(getattr(e, "cause", str(e)), getattr(e, "remedy", ""))
        return capability

    def place(self, host: Host, thing: str) -> Place:
        if host.planning and host.target.included and not host.target.processes:
            raise CapabilityError(thing, "the included engine has no network namespace yet", "start it first")
        return find_place(
            Wanted(
                direction=self.direction,
                side=self.side,
                interface=self.interface,
                protocol=self.protocol,
                ports=self.ports,
                addresses=self.addresses,
                unfiltered=self.unfiltered,
                exclude_ports=self.exclude_ports,
                exclude_addresses=self.exclude_addresses,
            ),
            host,
            thing,
        )


def first_of(*rungs: tuple[str, tuple[str, ...]]) -> Capability:
    """The first rung whose parts this kernel has; without one, what the first lacks."""
    have = abilities()
    reason: Capability | None = None
    for name, parts in rungs:
        lacking = have.missing(*parts)
        if lacking is None:
            return Capability.yes(name)
        reason = reason or lacking
    assert reason
    return reason


def led(found: Capability, interface: str, direction: str) -> Capability:
    """The same rung, with the way by which packets get there."""
    if not found.ok:
        return found
    hooks = ("egress", "ingress") if direction == "both" else (direction,)
    ways = {"nft": steer.quiet_hooks(interface, hooks)}
    ways["cls_bpf"] = [hook for hook in hooks if hook not in ways["nft"]]
    return Capability.yes(f"{found.rung}, by {' and '.join(way for way, at in ways.items() if at)}")


def in_namespace(host: Host, commands: Sequence[str]) -> str:
    """A shell command that carries these out where the target lives."""
    line = "; ".join(commands)
    if space.is_own(space.of_target(host)):
        return line
    return f"nsenter --target {host.target.processes[0].pid} --net sh -c {shlex.quote(line)}"
