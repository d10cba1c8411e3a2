"""Links, queueing disciplines and classifiers of one network namespace (rtnetlink(7), tc(8))."""

from __future__ import annotations

import errno
import ipaddress
import struct
from dataclasses import dataclass

from chaosflow.linux.netlink import CREATE, ECHO, EXCL, Message, Netlink, attr, attr_map, nest, text

ROOT, CLSACT, CLSACT_HANDLE = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFF0000
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
"""The two hooks of clsact, as parents of filters."""
_NEWLINK, _DELLINK, _GETLINK = 16, 17, 18
_GETROUTE = 26
_NEWQDISC, _DELQDISC, _GETQDISC = 36, 37, 38
_NEWTCLASS = 40
_NEWTFILTER, _DELTFILTER, _GETTFILTER = 44, 45, 46
_IFINFO = struct.Struct("=BxHiII")
_TCMSG = struct.Struct("=BxxxiIII")
_ETH_P_ALL = 0x0300  # in network order
_IFF_UP = 1
_GONE = (errno.ENOENT, errno.ENODEV, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Link:
    index: int
    name: str
    alias: str
    up: bool


@dataclass(frozen=True, slots=True)
class Counters:
    packets: int = 0
    bytes: int = 0
    drops: int = 0
    qlen: int = 0
    overlimits: int = 0
    """How often a packet had to wait for the rate (tbf)."""


@dataclass(frozen=True, slots=True)
class Qdisc:
    kind: str
    handle: int
    parent: int
    options: bytes
    counters: Counters


@dataclass(frozen=True, slots=True)
class Filter:
    """A cls_bpf filter (or another kind, of which only pref and kind are known) with its first action."""

    kind: str
    pref: int
    handle: int
    redirects_to: int
    """Index of the interface its mirred action sends packets to; 0 = it has none."""
    counters: Counters


def links(nl: Netlink) -> list[Link]:
    return [_link(body) for body in nl.dump(Message(_GETLINK, 0, _IFINFO.pack(0, 0, 0, 0, 0)))]


def links_named(nl: Netlink, *names: str) -> list[Link | None]:
    """For each name its link, or None; in one exchange."""
    head = _IFINFO.pack(0, 0, 0, 0, 0)
    asked = [Message(_GETLINK, 0, head + text(3, name), _GONE) for name in names]
    return [_link(found[0]) if found else None for found in nl.request(*asked)]


def link(nl: Netlink, name: str) -> Link | None:
    return links_named(nl, name)[0]


def _link(body: bytes) -> Link:
    _, _, index, flags, _ = _IFINFO.unpack_from(body)
    found = attr_map(body[16:])
    words = {key: found.get(key, b"").rstrip(b"\0").decode(errors="replace") for key in (3, 20)}
    return Link(index, words[3], words[20], bool(flags & _IFF_UP))


def add_ifb(nl: Netlink, name: str, alias: str) -> Link:
    """A new intermediate functional block, down: once up, packets redirected to it pass its qdisc and go on.

    Give it its qdisc first: on a device that is up that takes a grace period of the kernel longer.
    """
    head = _IFINFO.pack(0, 0, 0, 0, 0)
    create = head + text(3, name) + nest(18, text(1, "ifb"))
    named = head + text(3, name)
    made = nl.request(
        Message(_NEWLINK, CREATE | EXCL, create),
        Message(_NEWLINK, 0, named + attr(20, alias.encode())),
        Message(_GETLINK, 0, named),
    )
    return _link(made[-1][0])


def up_message(index: int) -> Message:
    return Message(_NEWLINK, 0, _IFINFO.pack(0, 0, index, _IFF_UP, _IFF_UP))


def delete_link(nl: Netlink, index: int) -> None:
    nl.request(Message(_DELLINK, 0, _IFINFO.pack(0, 0, index, 0, 0), (errno.ENODEV,)))


def default_route_links(nl: Netlink) -> set[int]:
    """Indices of the interfaces that carry a default route, IPv4 or IPv6."""
    found = set()
    for family in (2, 10):
        for body in nl.dump(Message(_GETROUTE, 0, struct.pack("=BBBBBBBBI", family, *[0] * 8))):
            _, prefix, _, _, _, _, _, kind, _ = struct.unpack_from("=BBBBBBBBI", body)
            oif = attr_map(body[12:]).get(4)
            if prefix == 0 and kind == 1 and oif:
                found.add(struct.unpack("=I", oif)[0])
    return found


def route_link(nl: Netlink, address: str) -> int:
    """Index of the interface by which packets to that address leave; raises OSError without a route."""
    ip = ipaddress.ip_address(address)
    family, bits = (2, 32) if ip.version == 4 else (10, 128)
    body = struct.pack("=BBBBBBBBI", family, bits, 0, 0, 0, 0, 0, 0, 0) + attr(1, ip.packed)
    answer = nl.request(Message(_GETROUTE, 0, body))[0][0]
    return int(struct.unpack("=I", attr_map(answer[12:])[4])[0])


def _tcmsg(index: int, handle: int = 0, parent: int = 0, info: int = 0) -> bytes:
    return _TCMSG.pack(0, index, handle, parent, info)


def qdisc_message(
    index: int, kind: str, handle: int, parent: int, options: bytes, *, change: bool = False
) -> Message:
    """Add a qdisc where there is none; with ``change`` alter the options of one that is there."""
    body = _tcmsg(index, handle, parent) + text(1, kind) + attr(2, options)
    return Message(_NEWQDISC, 0 if change else CREATE | EXCL, body)


def class_message(index: int, kind: str, classid: int, parent: int, options: bytes) -> Message:
    return Message(
        _NEWTCLASS, CREATE | EXCL, _tcmsg(index, classid, parent) + text(1, kind) + attr(2, options)
    )


def delete_qdisc(nl: Netlink, index: int, parent: int, handle: int = 0) -> None:
    nl.request(Message(_DELQDISC, 0, _tcmsg(index, handle, parent), _GONE))


def qdiscs(nl: Netlink, index: int) -> list[Qdisc]:
    """All qdiscs of one interface, those inside others too."""
    found = []
    for body in nl.dump(Message(_GETQDISC, 0, _tcmsg(index))):
        _, at, handle, parent, _ = _TCMSG.unpack_from(body)
        if at == index:
            found.append(_qdisc(body, handle, parent))
    return found


def qdisc(nl: Netlink, index: int, handle: int) -> Qdisc | None:
    """One qdisc by its handle."""
    found = nl.request(Message(_GETQDISC, ECHO, _tcmsg(index, handle), _GONE))[0]
    if not found:
        return None
    _, _, handle, parent, _ = _TCMSG.unpack_from(found[0])
    return _qdisc(found[0], handle, parent)


def _qdisc(body: bytes, handle: int, parent: int) -> Qdisc:
    found = attr_map(body[20:])
    return Qdisc(_word(found), handle, parent, found.get(2, b""), _counters(found.get(7, b"")))


def _word(found: dict[int, bytes]) -> str:
    return found.get(1, b"").rstrip(b"\0").decode(errors="replace")


def _counters(stats: bytes) -> Counters:
    found = attr_map(stats)
    size, packets = struct.unpack_from("=QI", found[1]) if 1 in found else (0, 0)
    qlen, _, drops, _, overlimits = struct.unpack_from("=5I", found[3]) if 3 in found else (0, 0, 0, 0, 0)
    return Counters(packets, size, drops, qlen, overlimits)


def clsact_message(index: int) -> Message:
    """Fine where there is one."""
    body = _tcmsg(index, CLSACT_HANDLE, CLSACT) + text(1, "clsact") + attr(2, b"")
    return Message(_NEWQDISC, CREATE | EXCL, body, (errno.EEXIST,))


def delete_clsact(nl: Netlink, index: int) -> None:
    delete_qdisc(nl, index, CLSACT)


def has_clsact(nl: Netlink, index: int) -> bool:
    """Whether clsact is there; an older ``ingress`` qdisc in its place is not."""
    return any(q.kind == "clsact" for q in qdiscs(nl, index))


def bpf_filter_message(
    index: int, hook: int, pref: int, handle: int, code: bytes, redirect_to: int
) -> Message:
    """Send what the program matches to another interface's egress; the rest goes on to the next filter.

    Fine where there is a filter of that preference and handle.
    """
    mirred = attr(2, struct.pack("=IIiiiiI", 0, 0, 4, 0, 0, 1, redirect_to))  # stolen; egress redirect
    action = nest(1, nest(1, text(1, "mirred"), nest(2, mirred)))
    return _bpf(index, hook, pref, handle, code, action, (errno.EEXIST,))


def bpf_class_filter_message(index: int, parent: int, pref: int, handle: int, code: bytes) -> Message:
    """Put packets into the class whose id the program returns."""
    return _bpf(index, parent, pref, handle, code, b"")


def _bpf(
    index: int, parent: int, pref: int, handle: int, code: bytes, more: bytes, tolerate: tuple[int, ...] = ()
) -> Message:
    options = attr(4, struct.pack("=H", len(code) // 8)) + attr(5, code) + more
    head = _tcmsg(index, handle, parent, pref << 16 | _ETH_P_ALL)
    return Message(_NEWTFILTER, CREATE | EXCL, head + text(1, "bpf") + attr(2, options), tolerate)


def delete_filter(nl: Netlink, index: int, hook: int, pref: int, handle: int) -> None:
    body = _tcmsg(index, handle, hook, pref << 16 | _ETH_P_ALL) + text(1, "bpf")
    nl.request(Message(_DELTFILTER, 0, body, _GONE))


def filters(nl: Netlink, index: int, hook: int) -> list[Filter]:
    """The filters at a hook of clsact; none where there is no clsact."""
    try:
        answers = nl.dump(Message(_GETTFILTER, 0, _tcmsg(index, 0, hook)))
    except OSError as e:
        if e.errno in _GONE:
            return []
        raise
    found = []
    for body in answers:
        _, _, handle, _, info = _TCMSG.unpack_from(body)
        parts = attr_map(body[20:])
        to, counters = 0, Counters()
        if _word(parts) == "bpf":
            to, counters = _redirect(attr_map(parts.get(2, b"")).get(1, b""))
        if handle:  # a line with handle 0 announces the classifier as such
            found.append(Filter(_word(parts), info >> 16, handle, to, counters))
    return found


def _redirect(actions: bytes) -> tuple[int, Counters]:
    first = attr_map(attr_map(actions).get(1, b""))
    parms = attr_map(first.get(2, b"")).get(2, b"")
    to = struct.unpack_from("=IIiiiiI", parms)[6] if len(parms) >= 28 else 0
    return int(to), _counters(first.get(4, b""))
