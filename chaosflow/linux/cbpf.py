"""Which packets are meant, as a classic BPF program for ``cls_bpf``: no compiler, no bpf() call.

It runs at a clsact hook, reads from the network header on (so any kind of link will do), and understands
IPv4 and IPv6. Fragments behind the first, and IPv6 extension headers, have no ports: a filter by port does
not match them.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58}
_NET, _AD = 0xFFF00000, 0xFFFFF000  # SKF_NET_OFF, SKF_AD_OFF in <linux/filter.h>
_AD_PROTOCOL, _AD_RANDOM = _AD + 0, _AD + 56
_LD_W, _LD_H, _LD_B = 0x20, 0x28, 0x30
_LD_H_IND, _LD_W_IND, _LDX_MSH, _LD_MEM, _ST, _LDX_MEM = 0x48, 0x40, 0xB1, 0x60, 0x02, 0x61
_JA, _JEQ, _JGE, _JSET, _RET = 0x05, 0x15, 0x35, 0x45, 0x06
_AND, _ADD, _XOR_X, _ADD_X, _MUL, _RSH = 0x54, 0x04, 0xAC, 0x0C, 0x24, 0x74
_SPORT, _DPORT, _PROTO = 0, 1, 2  # scratch memory
MATCH, NO_MATCH = 0xFFFFFFFF, 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a conversation: any of these networks (none = all) and any of these ports (none = all)."""

    networks: tuple[Network, ...] = ()
    ports: tuple[int, ...] = ()

    def everything(self) -> bool:
        return not self.networks and not self.ports


@dataclass(frozen=True, slots=True)
class Match:
    """Packets to or from ``target``, none of whose ends is in ``exclude``."""

    target: Endpoint = Endpoint()
    exclude: tuple[Endpoint, ...] = ()
    protocol: str = "any"
    """``tcp``, ``udp``, ``icmp``, ``icmpv6`` or ``any``."""
    to_target: bool = True
    from_target: bool = True
    share: float = 1.0
    """Of the packets that match, this share, drawn at random by the kernel; a GSO packet counts as one."""


def match_to_json(match: Match) -> dict[str, Any]:
    """Plain data; ``match_from_json`` makes the same match of it."""
    data = asdict(match)
    for endpoint in (data["target"], *data["exclude"]):
        endpoint["networks"] = [str(network) for network in endpoint["networks"]]
    plain: dict[str, Any] = json.loads(json.dumps(data))  # lists for tuples, as they come back from a file
    return plain


def match_from_json(data: dict[str, Any]) -> Match:
    ends = [
        Endpoint(tuple(ipaddress.ip_network(n) for n in end["networks"]), tuple(end["ports"]))
        for end in (data["target"], *data["exclude"])
    ]
    return Match(**{**data, "target": ends[0], "exclude": tuple(ends[1:])})


@dataclass(slots=True)
class _Assembler:
    code: list[tuple[int, int | str]] = field(default_factory=list)
    """(operation, operand); a conditional jump goes on if true and skips the next one if false."""
    labels: dict[str, int] = field(default_factory=dict)
    fresh: int = 0

    def emit(self, operation: int, k: int | str = 0) -> None:
        self.code.append((operation, k))

    def label(self, name: str) -> None:
        self.labels[name] = len(self.code)

    def new(self) -> str:
        self.fresh += 1
        return f"_{self.fresh}"

    def jump_if(self, operation: int, k: int, where: str) -> None:
        self.emit(operation, k)
        self.emit(_JA, where)

    def jump_unless(self, operation: int, k: int, where: str) -> None:
        on = self.new()
        self.jump_if(operation, k, on)
        self.emit(_JA, where)
        self.label(on)

    def binary(self) -> bytes:
        out = b""
        for at, (operation, k) in enumerate(self.code):
            if isinstance(k, str):
                out += struct.pack("=HBBI", operation, 0, 0, self.labels[k] - at - 1)
            else:
                conditional = operation in (_JEQ, _JGE, _JSET)
                out += struct.pack("=HBBI", operation, 0, 1 if conditional else 0, k)
        return out


def program(match: Match) -> bytes:
    """Instructions that return MATCH or NO_MATCH. At most 4096 of them; raises ValueError beyond."""
    asm = _Assembler()
    asm.emit(_LD_W, _AD_PROTOCOL)
    asm.jump_if(_JEQ, 0x0800, "ipv4")
    asm.jump_if(_JEQ, 0x86DD, "ipv6")
    asm.emit(_RET, NO_MATCH)
    for version in (4, 6):
        asm.label(f"ipv{version}")
        _one_version(asm, match, version)
    asm.label("take")
    if match.share < 1:
        asm.emit(_LD_W, _AD_RANDOM)
        asm.jump_if(_JGE, round(match.share * (1 << 32)), "leave")
    asm.emit(_RET, MATCH)
    asm.label("leave")
    asm.emit(_RET, NO_MATCH)
    if len(asm.code) > 4096:
        raise ValueError(
            f"{len(asm.code)} instructions, the kernel takes 4096: name fewer addresses and ports"
        )
    return asm.binary()


def _one_version(asm: _Assembler, match: Match, version: int) -> None:
    done, wants_ports = f"sides{version}", bool(match.target.ports) or any(e.ports for e in match.exclude)
    asm.emit(_LD_B, _NET + (9 if version == 4 else 6))
    if match.protocol != "any":
        asm.jump_unless(_JEQ, PROTOCOLS[match.protocol], "leave")
    if wants_ports:
        _load_ports(asm, version)
    for side, wanted in (("dst", match.to_target), ("src", match.from_target)):
        if not wanted:
            continue
        other = asm.new()
        _unless_endpoint(asm, match.target, version, side, other)
        asm.emit(_JA, done)
        asm.label(other)
    asm.emit(_JA, "leave")
    asm.label(done)
    for endpoint in match.exclude:
        for side in ("dst", "src"):
            other = asm.new()
            _unless_endpoint(asm, endpoint, version, side, other)
            asm.emit(_JA, "leave")
            asm.label(other)
    asm.emit(_JA, "take")


def _load_ports(asm: _Assembler, version: int) -> None:
    """Ports into scratch memory; 0 where the packet has none, which no filter asks for."""
    has, after = asm.new(), asm.new()
    asm.emit(_ST, _PROTO)
    asm.emit(0x00)  # A = 0
    asm.emit(_ST, _SPORT)
    asm.emit(_ST, _DPORT)
    asm.emit(_LD_MEM, _PROTO)
    asm.jump_if(_JEQ, PROTOCOLS["tcp"], has)
    asm.jump_if(_JEQ, PROTOCOLS["udp"], has)
    asm.emit(_JA, after)
    asm.label(has)
    if version == 4:
        asm.emit(_LD_H, _NET + 6)
        asm.jump_if(_JSET, 0x1FFF, after)
        asm.emit(_LDX_MSH, _NET)
    else:
        asm.emit(0x01, 40)  # X = 40
    asm.emit(_LD_H_IND, _NET)
    asm.emit(_ST, _SPORT)
    asm.emit(_LD_H_IND, _NET + 2)
    asm.emit(_ST, _DPORT)
    asm.label(after)


def _unless_endpoint(asm: _Assembler, endpoint: Endpoint, version: int, side: str, where: str) -> None:
    """Jump to ``where`` unless that side of the packet is the endpoint; else go on behind."""
    if endpoint.ports:
        on = asm.new()
        asm.emit(_LD_MEM, _DPORT if side == "dst" else _SPORT)
        for port in endpoint.ports:
            asm.jump_if(_JEQ, port, on)
        asm.emit(_JA, where)
        asm.label(on)
    if endpoint.networks:
        on = asm.new()
        for network in endpoint.networks:
            if network.version == version:
                _if_network(asm, network, side, on)
        asm.emit(_JA, where)
        asm.label(on)


def _if_network(asm: _Assembler, network: Network, side: str, where: str) -> None:
    base = {(4, "src"): 12, (4, "dst"): 16, (6, "src"): 8, (6, "dst"): 24}[network.version, side]
    address, mask = network.network_address.packed, network.netmask.packed
    no = asm.new()
    for at in range(0, len(address), 4):
        (wanted,), (bits,) = struct.unpack_from("!I", address, at), struct.unpack_from("!I", mask, at)
        if bits == 0:
            break
        asm.emit(_LD_W, _NET + base + at)
        if bits != 0xFFFFFFFF:
            asm.emit(_AND, bits)
        asm.jump_unless(_JEQ, wanted, no)
    asm.emit(_JA, where)
    asm.label(no)


def flow_classes(first_classid: int, bits: int) -> bytes:
    """A program that spreads flows over 2**bits classes, from ``first_classid`` on, by addresses and ports.

    All packets of one direction of one connection get one class; neighbouring ports get different ones.
    """
    asm = _Assembler()
    asm.emit(_LD_W, _AD_PROTOCOL)
    asm.jump_if(_JEQ, 0x86DD, "ipv6")
    asm.jump_unless(_JEQ, 0x0800, "other")
    asm.emit(_LDX_MSH, _NET)
    asm.emit(_LD_W_IND, _NET)
    asm.emit(_ST, 0)
    _xor_words(asm, (12, 16))
    asm.emit(_JA, "fold")
    asm.label("ipv6")
    asm.emit(_LD_W, _NET + 40)
    asm.emit(_ST, 0)
    _xor_words(asm, (20, 36))
    asm.label("fold")
    asm.emit(_LD_MEM, 0)
    asm.emit(_MUL, 0x9E3779B1)  # Knuth's multiplicative hash
    asm.emit(_RSH, 32 - bits)
    asm.emit(_ADD, first_classid)
    asm.emit(0x16)  # return A
    asm.label("other")
    asm.emit(_RET, first_classid)
    return asm.binary()


def _xor_words(asm: _Assembler, offsets: Sequence[int]) -> None:
    for offset in offsets:
        asm.emit(_LDX_MEM, 0)
        asm.emit(_LD_W, _NET + offset)
        asm.emit(_XOR_X)
        asm.emit(_ST, 0)
