"""TCP connections of one network namespace, listed and ended by the kernel (sock_diag(7), SOCK_DESTROY)."""

from __future__ import annotations

import errno
import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from chaosflow.linux.cbpf import Endpoint, Match, Network
from chaosflow.linux.netlink import ACK, Message, Netlink, NetlinkError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_BY_FAMILY, _DESTROY = 20, 21
_INET, _INET6, _TCP = 2, 10, 6
_OPEN_STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
"""All of <net/tcp_states.h> but TIME_WAIT, CLOSE and LISTEN."""
_SOCKET = struct.Struct("!HH16s16s")
_IDENTITY_BYTES = 48
_ANY_COOKIE = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class Connection:
    """One end of a TCP connection; where both ends live in the namespace, there are two of them."""

    family: int
    identity: bytes
    """The kernel's own name of it (struct inet_diag_sockid)."""
    local: tuple[Address, int]
    remote: tuple[Address, int]


def connections(nl: Netlink) -> Iterator[Connection]:
    """Every open connection. ``nl`` is a SOCK_DIAG socket. Changes nothing."""
    for family in (_INET, _INET6):
        body = struct.pack("=BBBBI", family, _TCP, 0, 0, _OPEN_STATES) + bytes(_IDENTITY_BYTES)
        for answer in nl.dump(Message(_BY_FAMILY, 0, body)):
            identity = answer[4 : 4 + _IDENTITY_BYTES]
            local_port, remote_port, local, remote = _SOCKET.unpack_from(identity)
            yield Connection(
                answer[0],
                identity,
                (_address(answer[0], local), local_port),
                (_address(answer[0], remote), remote_port),
            )


def matching(nl: Netlink, match: Match) -> list[Connection]:
    """Open connections to ``match.target``, its own end first; what is excluded is left out."""
    found = []
    for one in connections(nl):
        ends = [end for end in (one.local, one.remote) if _is_in(match.target, end)]
        if ends and not any(_is_in(out, end) for out in match.exclude for end in (one.local, one.remote)):
            found.append((ends[0] is not one.local, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def destroy(nl: Netlink, connection: Connection) -> bool:
    """Abort it: this end fails at once (ECONNABORTED), its peer is sent a RST. False where it was gone already.

    Raises NetlinkError: EOPNOTSUPP on a kernel without CONFIG_INET_DIAG_DESTROY.
    """
    head = struct.pack("=BBBBI", connection.family, _TCP, 0, 0, _OPEN_STATES)
    try:
        nl.request(Message(_DESTROY, ACK, head + connection.identity))
    except NetlinkError as e:
        if e.errno == errno.ENOENT:
            return False
        raise
    return True


def can_destroy(nl: Netlink) -> bool:
    """Whether the kernel has SOCK_DESTROY: asked of a connection that cannot be."""
    nowhere = bytes(_IDENTITY_BYTES - len(_ANY_COOKIE)) + _ANY_COOKIE
    here = (ipaddress.IPv4Address(0), 0)
    try:
        return not destroy(nl, Connection(_INET, nowhere, here, here))
    except OSError:
        return False


def _address(family: int, packed: bytes) -> Address:
    if family == _INET:
        return ipaddress.IPv4Address(packed[:4])
    found = ipaddress.IPv6Address(packed)
    return found.ipv4_mapped or found


def _is_in(wanted: Endpoint, end: tuple[Address, int]) -> bool:
    address, port = end
    networks: tuple[Network, ...] = wanted.networks
    return (not wanted.ports or port in wanted.ports) and (
        not networks or any(address.version == n.version and address in n for n in networks)
    )
