"""Where a network fault acts and whom it means: namespace, interface, hooks, and the packets matched."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import Host
from chaosflow.faults._net import space
from chaosflow.linux import tc
from chaosflow.linux.cbpf import Endpoint, Match, Network
from chaosflow.linux.netlink import ROUTE, Netlink


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the scenario says of place and packets."""

    direction: str
    side: str
    interface: str | None
    protocol: str
    ports: tuple[int, ...]
    addresses: tuple[str, ...]
    unfiltered: bool
    exclude_ports: tuple[int, ...]
    exclude_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where exactly. ``probe`` is an address and port whose handshakes take the faulty path, if any."""

    netns: int
    interface: str
    hooks: tuple[str, ...]
    match: Match
    probe: tuple[str, int] | None
    crossings: int
    """How often a handshake's two packets cross the hooks."""


def find_place(wanted: Wanted, host: Host, thing: str) -> Place:
    """Raises CapabilityError where the scenario asks for what is not there, or too much. Changes nothing."""
    url = urlsplit(host.target.url)
    name, port = url.hostname or "127.0.0.1", url.port or (443 if url.scheme == "https" else 80)
    inode = space.of_target(host)
    addresses = (
        [ipaddress.ip_address("127.0.0.1")]
        if host.target.included or inode_is_foreign(inode)
        else _resolve(name, thing)
    )
    with space.opened(inode, lock=False) as fd:
        if fd is None:
            raise CapabilityError(thing, "the target's network namespace is gone", "start the target first")
        with Netlink(ROUTE, fd) as nl:
            interface = _interface(
                nl, wanted, str(addresses[0]), foreign=inode_is_foreign(inode), host=host, thing=thing
            )
            match = _match(wanted, port, addresses if interface != "lo" else [], own=space.is_own(inode))
            if space.is_own(inode):
                _guard(nl, interface, match, thing)
    hooks = ("egress", "ingress") if wanted.direction == "both" else (wanted.direction,)
    reaches = host.target.included or not inode_is_foreign(inode)
    probed = reaches and wanted.protocol in ("any", "tcp") and port in (match.target.ports or (port,))
    probe = (str(addresses[0]), port) if probed else None
    return Place(inode, interface, hooks, match, probe, _crossings(interface, hooks, match))


def inode_is_foreign(inode: int) -> bool:
    return not space.is_own(inode)


def _resolve(name: str, thing: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = {str(a[4][0]).split("%")[0] for a in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError as e:
        raise CapabilityError(thing, f"the target's host {name!r} cannot be resolved ({e.strerror})") from e
    return sorted((ipaddress.ip_address(a) for a in found), key=lambda a: (a.version, int(a)))


def _interface(nl: Netlink, wanted: Wanted, address: str, *, foreign: bool, host: Host, thing: str) -> str:
    if wanted.interface is not None:
        if tc.link(nl, wanted.interface) is None:
            known = ", ".join(link.name for link in tc.links(nl))
            raise CapabilityError(thing, f"there is no interface {wanted.interface!r}", f"there are: {known}")
        return wanted.interface
    names = {link.index: link.name for link in tc.links(nl)}
    if foreign and not host.target.included:  # a container: its clients come by its default route
        return next((names[i] for i in sorted(tc.default_route_links(nl)) if i in names), "lo")
    try:
        return names[tc.route_link(nl, address)]
    except (OSError, LookupError) as e:
        raise CapabilityError(thing, f"no route leads to {address}", "name an interface") from e


def _match(wanted: Wanted, port: int, addresses: Sequence[object], *, own: bool) -> Match:
    networks = tuple(ipaddress.ip_network(a, strict=False) for a in wanted.addresses)
    if not networks and not wanted.unfiltered and own:
        networks = tuple(ipaddress.ip_network(str(a)) for a in addresses)
    ports = () if wanted.unfiltered or wanted.protocol in ("icmp", "icmpv6") else (wanted.ports or (port,))
    exclude = [Endpoint((), wanted.exclude_ports)] if wanted.exclude_ports else []
    if wanted.exclude_addresses:
        exclude.append(
            Endpoint(tuple(ipaddress.ip_network(a, strict=False) for a in wanted.exclude_addresses), ())
        )
    if own:
        exclude += ssh_sessions()
    return Match(
        Endpoint(networks, ports),
        tuple(exclude),
        wanted.protocol,
        to_target=wanted.side != "from_target",
        from_target=wanted.side != "to_target",
    )


def _guard(nl: Netlink, interface: str, match: Match, thing: str) -> None:
    link = tc.link(nl, interface)
    if link is None or link.index not in tc.default_route_links(nl):
        return
    if not match.target.ports or not match.target.networks:
        raise CapabilityError(
            thing,
            f"{interface} carries this machine's default route, and the fault would touch more than the target",
            "filter by addresses and ports (both), or let the included engine run in its own namespace",
        )


def _crossings(interface: str, hooks: tuple[str, ...], match: Match) -> int:
    if interface == "lo":  # both packets of a round trip leave by lo and come in by lo
        return len(hooks) * (match.to_target + match.from_target)
    return int("egress" in hooks and match.to_target) + int("ingress" in hooks and match.from_target)


def ssh_sessions() -> list[Endpoint]:
    """The client's end of the SSH session that this process, or one above it, runs in."""
    found: set[tuple[Network, int]] = set()
    pid = os.getpid()
    for _ in range(64):
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        for variable in environ.split(b"\0"):
            if variable.startswith(b"SSH_CONNECTION="):
                found |= _session(variable.decode(errors="replace").partition("=")[2])
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])
        if pid <= 1:
            break
    return [Endpoint((network,), (port,)) for network, port in sorted(found, key=str)]


def _session(text: str) -> set[tuple[Network, int]]:
    words = text.split()
    try:
        return {(ipaddress.ip_network(words[0].split("%")[0]), int(words[1]))}
    except (ValueError, IndexError):
        return set()
