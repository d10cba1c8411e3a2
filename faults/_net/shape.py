"""A chain of stages on one ifb: each shaping fault on the same packets is one qdisc inside the one before.

A stage is reverted by making it neutral: what it holds still leaves in order, and nothing is lost. With the
last one the filter goes, and when the ifb is empty the ifb too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self

from chaosflow.core.errors import CapabilityError
from chaosflow.faults._net import space, steer
from chaosflow.linux import cbpf, netem, tc
from chaosflow.linux.netem import Netem
from chaosflow.linux.netlink import Message, Netlink
from chaosflow.linux.tc import Qdisc

_DRAIN_S = 0.5
_MOST_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One fault's place in the chain. ``handle`` is its qdisc; with ``flows`` it holds a queue per flow."""

    steering: steer.Steering
    handle: int
    holds_s: float
    """How long it may hold a packet."""
    inner: int = 0
    """Handle of the qdisc that spreads flows, where there is one behind a head of its own."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**{**data, "steering": steer.Steering.from_json(data["steering"])})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Add = Callable[[int, int], list[Message]]
"""The messages that make a stage, from the ifb's index and the parent."""


def install(stage: Stage, add: Add) -> None:
    """Put the stage at the end of its chain, and lead the packets there."""
    with space.opened(stage.steering.netns) as fd:
        if fd is None:
            raise CapabilityError("fault", "the target's network namespace is gone", "start the target first")
        with steer.sockets(fd, stage.steering) as (nl, rules):
            steer.lead(nl, rules, stage.steering, lambda nl, ifb, new: _append(nl, ifb, new, stage, add))


def _append(nl: Netlink, ifb: int, new: bool, stage: Stage, add: Add) -> list[Message]:
    chain = [] if new else chain_of(tc.qdiscs(nl, ifb))
    if any(q.handle == stage.handle for q in chain):
        return []
    if not chain:
        return add(ifb, tc.ROOT)
    if chain[-1].kind == "htb":
        raise CapabilityError(
            f"ifb of {stage.steering.interface}",
            "a jitter that keeps order acts on these packets already, and nothing can follow it",
            "inject that one last, or give it reorder: true",
        )
    return add(ifb, chain[-1].handle | 1)


def chain_of(found: list[Qdisc]) -> list[Qdisc]:
    """The stages, the outermost first; queues of single flows are left out."""
    by_parent = {q.parent: q for q in found if q.handle}
    chain: list[Qdisc] = []
    parent = tc.ROOT
    while q := by_parent.get(parent):
        chain.append(q)
        parent = q.handle | 1
        if q.kind == "htb":
            break
    return chain


def flow_stage(ifb: int, handle: int, parent: int, each: Netem, queues: int) -> list[Message]:
    """A netem for each of ``queues`` groups of flows, so that jitter never reorders within a flow."""
    options = netem.netem_options(each, table_size=1024)
    code = cbpf.flow_classes(handle | 2, queues.bit_length() - 1)
    out = [tc.qdisc_message(ifb, "htb", handle, parent, netem.htb_options())]
    for number in range(queues):
        classid = handle | (2 + number)
        out.append(tc.class_message(ifb, "htb", classid, handle, netem.htb_class_options()))
        out.append(tc.qdisc_message(ifb, "netem", 0, classid, options))
    # last of all: until then packets pass unclassified and undelayed
    out.append(tc.bpf_class_filter_message(ifb, handle, 1, 1, code))
    return out


@dataclass(frozen=True, slots=True)
class StageSeen:
    in_place: int
    of: int
    packets: int
    drops: int
    waits: int
    """How often a packet had to wait for a tbf's rate."""
    options: tuple[bytes, ...]
    """Of the stage's qdisc, per hook."""


def look(stage: Stage) -> StageSeen | None:
    """What is there of a stage; None when the namespace is gone. Reads only."""
    with space.opened(stage.steering.netns, lock=False) as fd:
        if fd is None:
            return None
        with steer.sockets(fd, stage.steering) as (nl, rules):
            seen = steer.look(nl, rules, stage.steering)
            found = [q for ifb in seen.ifb if (q := tc.qdisc(nl, ifb, stage.handle))]
            live = [q for q in found if not _neutral(nl, seen.ifb, q)]
    in_place = min(seen.in_place, len(live))
    drops, waits = sum(q.counters.drops for q in found), sum(q.counters.overlimits for q in found)
    return StageSeen(
        in_place, len(stage.steering.ifbs), seen.packets, drops, waits, tuple(q.options for q in live)
    )


def _neutral(nl: Netlink, ifbs: tuple[int, ...], stage: Qdisc) -> bool:
    if stage.kind == "netem":
        return netem.read_netem(stage.options).neutral
    if stage.kind == "tbf":
        return netem.tbf_is_neutral(stage.options)
    for ifb in ifbs:
        for q in tc.qdiscs(nl, ifb):
            if q.kind == "netem" and q.parent & 0xFFFF0000 == stage.handle:
                return netem.read_netem(q.options).neutral
    return True


def remove(stage: Stage) -> None:
    """Make the stage neutral; take everything away when it was the last. May wait until what is held has left."""
    with space.opened(stage.steering.netns) as fd:
        if fd is None:
            return
        with steer.sockets(fd, stage.steering) as (nl, rules):
            if _neutralize(nl, stage):
                return  # others are still there
            _drain(nl, stage)
            steer.stop_leading(nl, rules, stage.steering)
            _drain(nl, stage)
            steer.clean_up(nl, stage.steering)


def _neutralize(nl: Netlink, stage: Stage) -> bool:
    """True when other stages still act on these packets."""
    others = False
    for name in stage.steering.ifbs.values():
        ifb = tc.link(nl, name)
        if ifb is None:
            continue
        found = tc.qdiscs(nl, ifb.index)
        chain = chain_of(found)
        mine = [q for q in chain if q.handle in (stage.handle, stage.inner)]
        for q in mine:
            nl.request(*_neutral_messages(ifb.index, q, found))
        rest = [q for q in chain if q not in mine]
        others = others or any(not _neutral(nl, (ifb.index,), q) for q in rest)
    return others


def _neutral_messages(ifb: int, stage: Qdisc, found: list[Qdisc]) -> list[Message]:
    if stage.kind == "tbf":
        return [tc.qdisc_message(ifb, "tbf", stage.handle, stage.parent, netem.neutral_tbf(), change=True)]
    queues = [stage] if stage.kind == "netem" else [q for q in found if q.parent >> 16 == stage.handle >> 16]
    return [
        tc.qdisc_message(
            ifb, "netem", q.handle, q.parent,
            netem.netem_options(netem.neutral_netem(netem.read_netem(q.options).limit)), change=True,
        )
        for q in queues if q.kind == "netem"
    ]  # fmt: skip


def _drain(nl: Netlink, stage: Stage) -> None:
    """Wait until nothing is held any more, or for as long as something may rightly be."""
    give_up = time.monotonic() + min(_MOST_DRAIN_S, stage.holds_s + _DRAIN_S)
    while time.monotonic() < give_up:
        held = 0
        for name in stage.steering.ifbs.values():
            if ifb := tc.link(nl, name):
                held += sum(q.counters.qlen for q in chain_of(tc.qdiscs(nl, ifb.index))[:1])
        if held == 0:
            return
        time.sleep(0.002)
