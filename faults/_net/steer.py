"""Lead chosen packets through a device of ours, and let them go again. No root qdisc is ever touched.

Two ways lead to an ifb, on which a qdisc of ours drops, delays or limits, and from which packets go on:

- at ingress, and for what leaves by ``lo`` (it comes in by ``lo``), an nftables rule: disturbs nobody;
- else a ``cls_bpf`` filter of our own preference at the interface's clsact. clsact is made only where there
  is none, and removed only if ChaosFlow made it and nobody else uses it. While it comes or goes the kernel
  stops the interface for an instant (dev_deactivate in net/sched/sch_api.c): a packet may be lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from chaosflow.core.errors import CapabilityError
from chaosflow.faults._net.abilities import abilities
from chaosflow.faults._net.place import Place
from chaosflow.linux import cbpf, nft, tc
from chaosflow.linux.netlink import NETFILTER, ROUTE, Message, Netlink, open_sockets

HOOKS = {"egress": tc.EGRESS, "ingress": tc.INGRESS}
DROP_PREF, SHAPE_PREF = 196, 197
"""What drops comes first, so that dropping and shaping compose."""
FIRST, _LAST = -400, 400
"""Priorities of nftables chains, for the same reason."""
_ALIAS = "chaosflow"
Build = Callable[[Netlink, int, bool], list[Message]]
"""The messages that put a qdisc on the ifb of this index; the last argument says that it has none yet."""


@dataclass(frozen=True, slots=True)
class Steering:
    """All that is needed to lead packets, and to stop it from another process."""

    netns: int
    interface: str
    ifbs: dict[str, str]
    """Hook -> name of the device that it leads to."""
    pref: int
    handle: int
    match: dict[str, Any]
    by_nft: list[str]
    """Hooks that an nftables rule serves; the others have a filter at clsact."""
    clsact_ours: bool

    def table(self, hook: str) -> str:
        return f"chaosflow-{hook[0]}-{self.handle:08x}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def number_of(*words: object) -> int:
    """31 bits that belong to these words, never 0."""
    digest = hashlib.blake2b("\0".join(str(w) for w in words).encode(), digest_size=4).digest()
    return (int.from_bytes(digest) & 0x7FFFFFFF) or 1


def table_of(run_id: str, name: str) -> str:
    """Name of the nftables table that is one fault alone."""
    return f"chaosflow-{run_id}-{name}"


def plan(nl: Netlink, place: Place, pref: int, key: tuple[object, ...]) -> Steering:
    """How to lead this place's packets. Reads only. Equal keys share one device."""
    match = cbpf.match_to_json(place.match)
    cbpf.program(place.match)  # raises ValueError now rather than later
    number = number_of(place.interface, place.hooks, match, pref, *key)
    quiet = quiet_hooks(place.interface, place.hooks) if pref == SHAPE_PREF else []
    letter = "d" if pref == DROP_PREF else "s"
    ifbs = {hook: f"cf{letter}{hook[0]}-{number:08x}" for hook in place.hooks}
    link = tc.link(nl, place.interface)
    ours = link is None or not tc.has_clsact(nl, link.index) or _made_by_us(nl, place.interface)
    return Steering(place.netns, place.interface, ifbs, pref, number, match, quiet, ours)


def quiet_hooks(interface: str, hooks: Sequence[str]) -> list[str]:
    """Which hooks nftables can serve here."""
    if not abilities().nft_forward:
        return []
    if list(hooks) == ["egress"]:
        return ["egress"] if interface == "lo" else []
    return [hook for hook in hooks if hook == "ingress"]


def _made_by_us(nl: Netlink, interface: str) -> bool:
    marker = _alias(interface, ours=True)
    return any(link.alias == marker for link in tc.links(nl))


def _alias(interface: str, *, ours: bool) -> str:
    return f"{_ALIAS} {interface} clsact={'ours' if ours else 'theirs'}"


@contextlib.contextmanager
def sockets(fd: int, steering: Steering) -> Iterator[tuple[Netlink, Netlink | None]]:
    """What its functions need: routing, and netfilter where rules lead to the device."""
    families = (ROUTE, NETFILTER) if steering.by_nft else (ROUTE,)
    with contextlib.ExitStack() as stack:
        route, *others = [stack.enter_context(nl) for nl in open_sockets(fd, *families)]
        yield route, others[0] if others else None


def lead(nl: Netlink, rules: Netlink | None, steering: Steering, build: Build) -> None:
    """Put everything in place; what is there already is used. Raises OSError or CapabilityError."""
    link, *devices = tc.links_named(nl, steering.interface, *steering.ifbs.values())
    if link is None:
        raise CapabilityError(
            f"interface {steering.interface}", "has vanished", "start the fault while it is there"
        )
    for (hook, name), known in zip(steering.ifbs.items(), devices, strict=True):
        ifb = known or tc.add_ifb(nl, name, _alias(steering.interface, ours=steering.clsact_ours))
        # nothing is led to the device before its qdisc is known to be there
        nl.request(*build(nl, ifb.index, known is None), tc.up_message(ifb.index))
        if rules and hook in steering.by_nft:
            _lead_by_nft(rules, steering, hook, ifb.index)
        else:
            _lead_by_filter(nl, steering, hook, link.index, ifb.index)


def _lead_by_filter(nl: Netlink, steering: Steering, hook: str, link: int, ifb: int) -> None:
    code = cbpf.program(cbpf.match_from_json(steering.match))
    leading = tc.bpf_filter_message(link, HOOKS[hook], steering.pref, steering.handle, code, ifb)
    nl.request(tc.clsact_message(link), leading)


def _lead_by_nft(nl: Netlink, steering: Steering, hook: str, ifb: int) -> None:
    match = cbpf.match_from_json(steering.match)
    chain = nft.Chain(hook, nft.NETDEV_INGRESS, steering.interface, _LAST)
    rules = nft.rules_for(nft.NETDEV, hook, match, nft.forward(ifb))
    try:
        nft.create(nl, nft.NETDEV, steering.table(hook), [chain], rules)
    except OSError as e:
        if e.errno != errno.EEXIST:
            raise


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there of a steering."""

    in_place: int
    """Hooks at which the filter leads to our device."""
    packets: int
    ifb: tuple[int, ...]


def look(nl: Netlink, rules: Netlink | None, steering: Steering) -> Seen:
    """Reads only."""
    link, *devices = tc.links_named(nl, steering.interface, *steering.ifbs.values())
    in_place = packets = 0
    ifbs = []
    for hook, ifb in zip(steering.ifbs, devices, strict=True):
        if ifb is None or link is None:
            continue
        ifbs.append(ifb.index)
        if rules and hook in steering.by_nft:
            counted = nft.counted(rules, nft.NETDEV, steering.table(hook))
            in_place += counted is not None
            packets += counted[0] if counted else 0
            continue
        for found in tc.filters(nl, link.index, HOOKS[hook]):
            if (found.pref, found.handle) == (steering.pref, steering.handle):
                in_place += found.redirects_to == ifb.index
                packets += found.counters.packets
    return Seen(in_place, packets, tuple(ifbs))


def stop_leading(nl: Netlink, rules: Netlink | None, steering: Steering) -> None:
    """Remove filters and rules: from now on packets take their usual way."""
    if rules:
        for hook in steering.by_nft:
            nft.delete(rules, nft.NETDEV, steering.table(hook))
    link = tc.link(nl, steering.interface)
    if link is None:
        return
    for hook in set(steering.ifbs) - set(steering.by_nft):
        tc.delete_filter(nl, link.index, HOOKS[hook], steering.pref, steering.handle)


def clean_up(nl: Netlink, steering: Steering) -> None:
    """Remove what is left once nothing is led here: the devices, and clsact if it is ours and unused."""
    for name in steering.ifbs.values():
        if ifb := tc.link(nl, name):
            tc.delete_link(nl, ifb.index)
    link = tc.link(nl, steering.interface)
    if link is None or not _uses_clsact(steering) or not tc.has_clsact(nl, link.index):
        return
    if not any(tc.filters(nl, link.index, hook) for hook in HOOKS.values()):
        tc.delete_clsact(nl, link.index)


def _uses_clsact(steering: Steering) -> bool:
    return steering.clsact_ours and len(steering.by_nft) < len(steering.ifbs)


def manual(steering: Steering) -> list[str]:
    """Shell commands that undo it."""
    out = []
    for hook, name in steering.ifbs.items():
        where = f"dev {steering.interface} {hook} protocol all pref {steering.pref}"
        remove = f"tc filter del {where} handle {steering.handle:#x} bpf"
        if hook in steering.by_nft:
            remove = f"nft delete table netdev {steering.table(hook)}"
        out += [remove, f"ip link del {name}"]
    if _uses_clsact(steering):
        out.append(f"tc qdisc del dev {steering.interface} clsact")
    return out
