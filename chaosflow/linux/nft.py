"""nftables by netlink: a table of ours with a few rules, its counters, its removal (libnftnl's wire format).

Needs no nft program. A table is made in one transaction: whole, or not at all.
"""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaosflow.linux.cbpf import PROTOCOLS, Endpoint, Match, Network
from chaosflow.linux.netlink import CREATE, EXCL, Message, Netlink, attr_map, attrs, nest, text
from chaosflow.linux.netlink import attr as _attr

INET, NETDEV = 1, 5
"""Families: IPv4 and IPv6 at the stack's hooks, and any packet at one device's."""
NETDEV_INGRESS, NETDEV_EGRESS = 0, 1
LOCAL_IN, LOCAL_OUT = 1, 3
_SUBSYSTEM = 10 << 8
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 2, 3, 6, 7
_BEGIN, _END = 0x10, 0x11
_EQ, _NEQ, _LT = 0, 1, 2
_META_PROTOCOL, _META_IIF, _META_OIF, _META_NFPROTO, _META_L4PROTO = 1, 4, 5, 15, 16
_NETWORK, _TRANSPORT = 1, 2
_GONE = (errno.ENOENT, errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.EINVAL)
_DRAW = 1_000_000


@dataclass(frozen=True, slots=True)
class Chain:
    """A base chain: where it hooks in."""

    name: str
    hook: int
    device: str = ""
    """For the family netdev."""
    priority: int = 0
    """Lower ones come first."""


@dataclass(frozen=True, slots=True)
class Rule:
    chain: str
    expressions: tuple[bytes, ...]


def be32(kind: int, value: int) -> bytes:
    return _attr(kind, struct.pack("!I", value & 0xFFFFFFFF))


def create(nl: Netlink, family: int, table: str, chains: Sequence[Chain], rules: Sequence[Rule]) -> None:
    """A new table with chains that accept what no rule takes. Raises NetlinkError; then nothing is there."""
    messages = [_message(_NEWTABLE, family, CREATE | EXCL, text(1, table))]
    for chain in chains:
        hook = (
            be32(1, chain.hook) + be32(2, chain.priority) + (text(3, chain.device) if chain.device else b"")
        )
        body = text(1, table) + text(3, chain.name) + nest(4, hook) + be32(5, 1) + text(7, "filter")
        messages.append(_message(_NEWCHAIN, family, CREATE, body))
    for rule in rules:
        body = text(1, table) + text(2, rule.chain) + nest(4, *(nest(1, e) for e in rule.expressions))
        messages.append(_message(_NEWRULE, family, CREATE | 0x800, body))
    nl.transaction(_batch(_BEGIN), messages, _batch(_END))


def delete(nl: Netlink, family: int, table: str) -> None:
    """Remove the table with all that is in it; fine when there is none."""
    message = _message(_DELTABLE, family, 0, text(1, table))
    try:
        nl.transaction(_batch(_BEGIN), [message], _batch(_END))
    except OSError as e:
        if e.errno not in _GONE:
            raise


def counted(nl: Netlink, family: int, table: str) -> tuple[int, int] | None:
    """Packets and rules of a table, summed over the counters in its rules; None when it is not there."""
    try:
        answers = nl.dump(_message(_GETRULE, family, 0, text(1, table)))
    except OSError as e:
        if e.errno in _GONE:
            return None
        raise
    packets, rules = 0, 0
    for body in answers:
        parts = attr_map(body[4:])
        if parts.get(1, b"").rstrip(b"\0").decode() != table:
            continue  # kernels before 6.2 do not filter the dump
        rules += 1
        for _, element in attrs(parts.get(4, b"")):
            expression = attr_map(element)
            if expression.get(1, b"").rstrip(b"\0") == b"counter":
                packets += struct.unpack("!Q", attr_map(expression[2])[2])[0]
    return (packets, rules) if rules else None


def rules_for(
    family: int, chain: str, match: Match, verdict: Sequence[bytes], *, iif: int = 0, oif: int = 0
) -> list[Rule]:
    """Rules that give ``verdict`` to the packets of ``match``; what is excluded is let go by first."""
    link = []
    if iif or oif:
        link = [_meta(_META_IIF if iif else _META_OIF), _compare(_EQ, struct.pack("=I", iif or oif))]
    rules = []
    for endpoint, side in itertools.product(match.exclude, ("src", "dst")):
        for conditions in _ends(endpoint, side, "any", family):
            rules.append(Rule(chain, (*link, *conditions, _verdict(1))))
    sides = [side for side, wanted in (("dst", match.to_target), ("src", match.from_target)) if wanted]
    draw = [] if match.share >= 1 else _draw(match.share)
    for side in sides:
        for conditions in _ends(match.target, side, match.protocol, family):
            rules.append(Rule(chain, (*link, *conditions, *draw, *verdict)))
    return rules


def drop() -> list[bytes]:
    return [_counter(), _verdict(0)]


def forward(ifindex: int) -> list[bytes]:
    """Send to that device; from an ifb the packets come back as if just received (netdev family only)."""
    load = _expression("immediate", be32(1, 1), nest(2, _attr(1, struct.pack("=I", ifindex))))
    return [_counter(), load, _expression("fwd", be32(1, 1))]


def reset() -> list[bytes]:
    """Answer with a TCP RST; an RST itself passes, or those that answer would be caught as well."""
    flags = [_payload(_TRANSPORT, 13, 1), _mask(b"\x04"), _compare(_EQ, b"\0")]
    return [*flags, _counter(), _expression("reject", be32(1, 1))]


def try_netdev(nl: Netlink) -> None:
    """Raises OSError where rules at a device's egress do not work. Leaves nothing."""
    chains = [Chain("out", NETDEV_EGRESS, "lo")]
    create(nl, NETDEV, "cf-try", chains, rules_for(NETDEV, "out", Match(Endpoint(), share=0.5), drop()))
    delete(nl, NETDEV, "cf-try")


def try_forward(nl: Netlink, ifindex: int) -> None:
    """Raises OSError where received packets cannot be sent through another device. Leaves nothing."""
    chains = [Chain("in", NETDEV_INGRESS, "lo")]
    create(nl, NETDEV, "cf-try", chains, rules_for(NETDEV, "in", Match(), forward(ifindex)))
    delete(nl, NETDEV, "cf-try")


def try_reject(nl: Netlink) -> None:
    """Raises OSError where a TCP reset cannot be sent. Leaves nothing."""
    match = Match(Endpoint(ports=(9,)), protocol="tcp")
    create(nl, INET, "cf-try", [Chain("out", LOCAL_OUT)], rules_for(INET, "out", match, reset()))
    delete(nl, INET, "cf-try")


def _message(kind: int, family: int, flags: int, body: bytes) -> Message:
    return Message(_SUBSYSTEM | kind, flags, struct.pack("!BBH", family, 0, 0) + body)


def _batch(kind: int) -> Message:
    return Message(kind, 0, struct.pack("!BBH", 0, 0, 10))


def _expression(name: str, *data: bytes) -> bytes:
    return text(1, name) + nest(2, *data)


def _meta(key: int) -> bytes:
    return _expression("meta", be32(2, key), be32(1, 1))


def _payload(base: int, offset: int, length: int) -> bytes:
    return _expression("payload", be32(1, 1), be32(2, base), be32(3, offset), be32(4, length))


def _compare(operation: int, value: bytes) -> bytes:
    return _expression("cmp", be32(1, 1), be32(2, operation), nest(3, _attr(1, value)))


def _mask(mask: bytes) -> bytes:
    masked = nest(4, _attr(1, mask)) + nest(5, _attr(1, bytes(len(mask))))
    return _expression("bitwise", be32(1, 1), be32(2, 1), be32(3, len(mask)), masked)


def _counter() -> bytes:
    return _expression("counter", _attr(1, bytes(8)), _attr(2, bytes(8)))


def _verdict(code: int) -> bytes:
    return _expression("immediate", be32(1, 0), nest(2, nest(2, be32(1, code))))


def _draw(share: float) -> list[bytes]:
    """True for this share of the packets; numgen's number is in host order, a comparison is not."""
    number = _expression("numgen", be32(1, 1), be32(2, _DRAW), be32(3, 1), be32(4, 0))
    swap = _expression("byteorder", be32(1, 1), be32(2, 1), be32(3, 1), be32(4, 4), be32(5, 4))
    return [number, swap, _compare(_LT, struct.pack("!I", round(share * _DRAW)))]


def _ends(endpoint: Endpoint, side: str, protocol: str, family: int) -> Iterator[list[bytes]]:
    """One list of conditions for each address, protocol and port of an endpoint."""
    protocols: tuple[str, ...] = (protocol,)
    if protocol == "any":
        protocols = ("tcp", "udp") if endpoint.ports else ("",)
    for network, layer4, port in itertools.product(
        endpoint.networks or (None,), protocols, endpoint.ports or (None,)
    ):
        out = _network(network, side, family) if network else []
        if layer4:
            out += [_meta(_META_L4PROTO), _compare(_EQ, bytes([PROTOCOLS[layer4]]))]
        if port:
            at = 2 if side == "dst" else 0
            out += [_payload(_TRANSPORT, at, 2), _compare(_EQ, struct.pack("!H", port))]
        yield out


def _network(network: Network, side: str, family: int) -> list[bytes]:
    base = {(4, "src"): 12, (4, "dst"): 16, (6, "src"): 8, (6, "dst"): 24}[network.version, side]
    address = network.network_address.packed
    # the nft program can print each of these only in its own family
    if family == NETDEV:
        version = [_meta(_META_PROTOCOL), _compare(_EQ, b"\x08\x00" if network.version == 4 else b"\x86\xdd")]
    else:
        version = [_meta(_META_NFPROTO), _compare(_EQ, bytes([2 if network.version == 4 else 10]))]
    out = [*version, _payload(_NETWORK, base, len(address))]
    if network.prefixlen < network.max_prefixlen:
        out.append(_mask(network.netmask.packed))
    return [*out, _compare(_EQ, address)]
