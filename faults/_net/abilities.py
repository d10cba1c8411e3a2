"""What this kernel and this user can do to packets, found out by doing it in a namespace of our own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from chaosflow.core.fault import Capability
from chaosflow.linux import cbpf, nft, tc
from chaosflow.linux.netem import Netem, htb_options, netem_options, tbf_options
from chaosflow.linux.netlink import NETFILTER, ROUTE, Netlink
from chaosflow.linux.netns import new_network_namespace

_HANDLE = 0x10000


@dataclass(frozen=True, slots=True)
class Abilities:
    """Each True only when it was tried and worked."""

    admin: bool = False
    steer: bool = False
    """clsact, cls_bpf and a redirect to an ifb."""
    netem: bool = False
    tbf: bool = False
    htb: bool = False
    blackhole: bool = False
    nft_netdev: bool = False
    nft_forward: bool = False
    """A redirect to an ifb at ingress, for which no clsact is made."""
    nft_reject: bool = False

    def missing(self, *needed: str) -> Capability | None:
        """Why these cannot be had, or None."""
        if not self.admin:
            return Capability.no(
                "needs CAP_NET_ADMIN and CAP_SYS_ADMIN", "run as root; or use the proxy faults"
            )
        lacking = [name for name in needed if not getattr(self, name)]
        if not lacking:
            return None
        modules = sorted({module for name in lacking for module in _MODULES[name]})
        return Capability.no(
            f"this kernel does not have {', '.join(modules)}",
            f"modprobe -a {' '.join(modules)}, or a kernel that has them; or use the proxy faults",
        )


_MODULES = {
    "steer": ("sch_ingress", "cls_bpf", "act_mirred", "ifb"),
    "netem": ("sch_netem",),
    "tbf": ("sch_tbf",),
    "htb": ("sch_htb",),
    "blackhole": ("sch_blackhole",),
    "nft_netdev": ("nf_tables",),
    "nft_reject": ("nf_tables", "nft_reject_inet"),
}


@cache
def abilities() -> Abilities:
    """Tried once per process. Touches no namespace but one made for it, gone when this returns."""
    fd = new_network_namespace()
    if fd is None:
        return Abilities()
    try:
        with Netlink(ROUTE, fd) as nl:
            found = _traffic_control(nl)
            ifb = tc.link(nl, "ifb-try")
        with Netlink(NETFILTER, fd) as nl:
            return Abilities(
                True,
                **found,
                nft_netdev=_works(lambda: nft.try_netdev(nl)),
                nft_forward=ifb is not None and _works(lambda: nft.try_forward(nl, ifb.index)),
                nft_reject=_works(lambda: nft.try_reject(nl)),
            )
    finally:
        os.close(fd)


def _works(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def _traffic_control(nl: Netlink) -> dict[str, bool]:
    lo = tc.link(nl, "lo")
    assert lo
    try:
        ifb = tc.add_ifb(nl, "ifb-try", "chaosflow")
    except OSError:
        return {}
    code = cbpf.program(cbpf.Match())
    steer = (
        tc.clsact_message(lo.index),
        tc.bpf_filter_message(lo.index, tc.EGRESS, 1, 1, code, ifb.index),
    )
    found = {"steer": _works(lambda: nl.request(*steer))}
    kinds = {
        "netem": netem_options(Netem()),
        "tbf": tbf_options(10**6, 1 << 17, 1 << 20),
        "htb": htb_options(),
        "blackhole": b"",
    }
    for kind, options in kinds.items():
        message = tc.qdisc_message(ifb.index, kind, _HANDLE, tc.ROOT, options)
        found[kind] = _works(lambda message=message: nl.request(message))  # type: ignore[misc]
        tc.delete_qdisc(nl, ifb.index, tc.ROOT, _HANDLE)
    return found
