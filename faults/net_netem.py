"""``net.netem``: delay, jitter, loss, duplication, corruption, reordering, rate and slots by the kernel's netem."""

from __future__ import annotations

import asyncio
import math
import time
from statistics import fmean, pstdev
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import handshakes, shape, space, steer
from chaosflow.faults._net.fault import NetFault, first_of, in_namespace, led
from chaosflow.faults._net.models import GeModel, Percent, Slot, StateModel
from chaosflow.faults._net.place import Place
from chaosflow.faults.net_bandwidth import stage_handle
from chaosflow.linux import netem, tc
from chaosflow.linux.netem import Netem
from chaosflow.linux.netlink import ROUTE, Message, Netlink

_PACKETS_PER_S = 200_000
_FEWEST_WAITING = 10_000
_MEASURED_AFTER_S = 1.0
"""The first look, just after the injection, does not wait for handshakes; later ones do."""


class NetNetem(NetFault):
    """A long, shaky or noisy line for the target's packets alone.

    Jitter keeps each flow's order unless ``reorder`` is true: flows are spread over queues of their own.
    """

    kind: ClassVar[str] = "net.netem"
    requires: ClassVar[str] = (
        "root (CAP_NET_ADMIN and CAP_SYS_ADMIN); sch_netem, ifb, cls_bpf with sch_ingress and act_mirred or nf_tables, "
        "sch_htb for jitter that keeps order"
    )
    cannot: ClassVar[str] = (
        "Other clients of that port on that interface meet it too. Behind a jitter that keeps order no other `net.netem` "
        "or `net.bandwidth` can act on the same packets: inject that one last. `corrupt_percent` is caught by "
        "checksums: it shows as loss"
    )
    aliases: ClassVar[tuple[str, ...]] = ("net.delay",)

    delay_ms: float = Field(0.0, ge=0, le=60_000)
    jitter_ms: float = Field(0.0, ge=0, le=60_000)
    """Half width of ``uniform``, standard deviation of the others."""
    distribution: Literal["uniform", "normal", "pareto", "paretonormal"] = "uniform"
    delay_correlation_percent: Percent = 0.0
    loss_percent: Percent = 0.0
    loss_correlation_percent: Percent = 0.0
    gemodel: GeModel | None = None
    state: StateModel | None = None
    ecn: bool = False
    """Mark instead of drop, where the flow can."""
    duplicate_percent: Percent = 0.0
    duplicate_correlation_percent: Percent = 0.0
    corrupt_percent: Percent = 0.0
    corrupt_correlation_percent: Percent = 0.0
    reorder_percent: Percent = 0.0
    """This share skips the delay."""
    reorder_correlation_percent: Percent = 0.0
    gap: int = Field(0, ge=0, le=100_000)
    """Every gap-th packet skips the delay (with ``reorder_percent``)."""
    rate_mbit_per_s: float | None = Field(None, gt=0, le=100_000)
    packet_overhead_bytes: int = Field(0, ge=-1500, le=1500)
    cell_size_bytes: int = Field(0, ge=0, le=65_535)
    cell_overhead_bytes: int = Field(0, ge=-1500, le=1500)
    slot: Slot | None = None
    reorder: bool = False
    """Let jitter reorder packets, as netem does by itself."""
    flow_queues: Literal[64, 128, 256, 512, 1024] = 256
    limit_packets: int | None = Field(None, ge=1, le=100_000_000)
    """Default: sized from rate and delay, so that the queue loses nothing."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        needs: list[tuple[bool, str]] = [
            (self.jitter_ms > self.delay_ms, "jitter_ms is greater than delay_ms"),
            (self.distribution != "uniform" and not self.jitter_ms, "distribution needs jitter_ms"),
            (self.delay_correlation_percent > 0 and not self.jitter_ms, "delay_correlation_percent needs jitter_ms"),
            (self.loss_correlation_percent > 0 and not self.loss_percent, "loss_correlation_percent needs loss_percent"),
            (
                (self.loss_percent > 0) + (self.gemodel is not None) + (self.state is not None) > 1,
                "loss_percent, gemodel and state exclude each other",
            ),
            (self.ecn and not self._loses, "ecn needs a loss to mark instead"),
            (self.duplicate_correlation_percent > 0 and not self.duplicate_percent, "duplicate_correlation_percent needs duplicate_percent"),
            (self.corrupt_correlation_percent > 0 and not self.corrupt_percent, "corrupt_correlation_percent needs corrupt_percent"),
            (self.reorder_percent > 0 and not self.delay_ms, "reorder_percent needs delay_ms"),
            ((self.gap > 0 or self.reorder_correlation_percent > 0) and not self.reorder_percent, "gap and reorder_correlation_percent need reorder_percent"),
            (
                bool(self.packet_overhead_bytes or self.cell_size_bytes or self.cell_overhead_bytes) and not self.rate_mbit_per_s,
                "overheads and cells need rate_mbit_per_s",
            ),
            (not self._does_something, "nothing is asked for: give at least one of delay_ms, loss_percent, …"),
        ]  # fmt: skip
        for wrong, text in needs:
            if wrong:
                raise ValueError(text)
        return self

    @property
    def _loses(self) -> bool:
        return bool(self.loss_percent or self.gemodel or self.state)

    @property
    def _noisy(self) -> bool:
        """Asks for what must act on the whole line, not on each flow's queue."""
        return bool(
            self._loses or self.duplicate_percent or self.corrupt_percent or self.rate_mbit_per_s or self.slot
        )

    @property
    def _does_something(self) -> bool:
        return bool(self.delay_ms or self._noisy)

    @property
    def per_flow(self) -> bool:
        """Whether flows need queues of their own to keep their order."""
        return bool(self.jitter_ms) and not self.reorder and not self.reorder_percent

    @property
    def limit(self) -> int:
        if self.limit_packets:
            return self.limit_packets
        held_s = (self.delay_ms + 4 * self.jitter_ms + (self.slot.max_ms if self.slot else 0)) / 1000
        rate = self._rate
        packets_per_s = rate / 64 if rate else _PACKETS_PER_S
        return min(10_000_000, max(_FEWEST_WAITING, math.ceil(packets_per_s * held_s)))

    @property
    def _rate(self) -> int:
        return round((self.rate_mbit_per_s or 0) * 125_000)

    def needs(self) -> Capability:
        parts = ("steer", "netem", "htb") if self.per_flow else ("steer", "netem")
        rung = "tc netem per flow on an ifb" if self.per_flow else "tc netem on an ifb"
        found = first_of((rung, parts))
        if not found.ok and "sch_netem" in found.reason:
            return Capability.no(
                found.reason,
                f"{found.remedy}, or net.loss, net.bandwidth, net.partition, which do without it",
            )
        return led(found, self.interface or "lo", self.direction)

    def line(self) -> Netem:
        """What acts on all packets alike; with a queue per flow, all but delay and jitter."""
        slot = self.slot
        delayed = not self.per_flow
        return Netem(
            delay_ms=self.delay_ms if delayed else 0.0,
            jitter_ms=self.jitter_ms if delayed else 0.0,
            distribution=self.distribution,
            delay_correlation=self.delay_correlation_percent / 100 if delayed else 0.0,
            loss=self.loss_percent / 100,
            loss_correlation=self.loss_correlation_percent / 100,
            gemodel=self.gemodel.shares() if self.gemodel else None,
            state=self.state.shares() if self.state else None,
            ecn=self.ecn,
            duplicate=self.duplicate_percent / 100,
            duplicate_correlation=self.duplicate_correlation_percent / 100,
            corrupt=self.corrupt_percent / 100,
            corrupt_correlation=self.corrupt_correlation_percent / 100,
            reorder=self.reorder_percent / 100,
            reorder_correlation=self.reorder_correlation_percent / 100,
            gap=self.gap,
            rate=self._rate,
            packet_overhead=self.packet_overhead_bytes,
            cell_size=self.cell_size_bytes,
            cell_overhead=self.cell_overhead_bytes,
            slot=(round(slot.min_ms * 1e6), round(slot.max_ms * 1e6), slot.packets, slot.kbytes * 1024)
            if slot
            else None,
            limit=self.limit,
        )

    def flow(self) -> Netem:
        """What acts on each flow's queue: delay and jitter, and a rate too fast to be felt that keeps order."""
        return Netem(
            delay_ms=self.delay_ms,
            jitter_ms=self.jitter_ms,
            distribution=self.distribution,
            delay_correlation=self.delay_correlation_percent / 100,
            rate=netem.ORDER_RATE,
            limit=self.limit,
        )

    async def plan(self, host: Host, name: str) -> Undo:
        return await asyncio.to_thread(self._plan, host, name)

    def _plan(self, host: Host, name: str) -> Undo:
        thing = f"{self.kind} {name}"
        rung = self.needs()
        if not rung.ok:
            raise CapabilityError(thing, rung.reason, rung.remedy)
        place = self.place(host, thing)
        with space.opened(place.netns) as fd, Netlink(ROUTE, fd) as nl:
            steering = steer.plan(nl, place, steer.SHAPE_PREF, ())
        head, inner = stage_handle(host, name), 0
        if self.per_flow and self._noisy:
            inner = stage_handle(host, name, "flows")
        held_s = (self.delay_ms + 6 * self.jitter_ms + (self.slot.max_ms if self.slot else 0)) / 1000
        state = {
            "rung": rung.rung,
            "stage": shape.Stage(steering, head, held_s, inner).to_json(),
            "expect": self._expected(place),
            "began_ns": time.monotonic_ns(),
        }
        manual = in_namespace(host, steer.manual(steering))
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    def _expected(self, place: Place) -> dict[str, Any]:
        """What a handshake on this path should show."""
        sd = self.jitter_ms / math.sqrt(3) if self.distribution == "uniform" else self.jitter_ms
        shown = place.crossings if self.delay_ms and not self.reorder_percent else 0
        return {
            "probe": list(place.probe) if place.probe and shown else None,
            "crossings": shown,
            "delay_ms": self.delay_ms,
            "sd_ms": sd,
            "loses": self._loses or bool(self.corrupt_percent),
        }

    async def inject(self, undo: Undo) -> None:
        stage = shape.Stage.from_json(undo.state["stage"])
        await asyncio.to_thread(shape.install, stage, lambda ifb, parent: self._add(stage, ifb, parent))

    def _add(self, stage: shape.Stage, ifb: int, parent: int) -> list[Message]:
        line = tc.qdisc_message(ifb, "netem", stage.handle, parent, netem.netem_options(self.line()))
        if not self.per_flow:
            return [line]
        if not stage.inner:
            return shape.flow_stage(ifb, stage.handle, parent, self.flow(), self.flow_queues)
        inside = shape.flow_stage(ifb, stage.inner, stage.handle | 1, self.flow(), self.flow_queues)
        return [line, *inside]

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(_look, undo.state)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(shape.remove, shape.Stage.from_json(undo.state["stage"]))


def _look(state: dict[str, Any]) -> Effect:
    stage = shape.Stage.from_json(state["stage"])
    seen = shape.look(stage)
    if seen is None:
        return Effect(False, "gone with 1 network namespace")
    if seen.in_place < seen.of:
        return Effect(False, f"in place at {seen.in_place} of {seen.of} hooks")
    dropped = f", {seen.drops} dropped" if seen.drops else ""
    text = f"{seen.packets} packets through it{dropped}"
    met = seen.packets > 0
    if time.monotonic_ns() - int(state["began_ns"]) < _MEASURED_AFTER_S * 1e9:
        return Effect(True, text, met)
    measured = _measured(stage.steering.netns, state["expect"])
    if measured is None:
        return Effect(True, text, met)
    return Effect(measured.active, f"{measured.evidence}; {text}", met)


def _measured(netns: int, expect: dict[str, Any]) -> Effect | None:
    """The delay as handshakes see it; None where it cannot be measured from here."""
    if expect["probe"] is None:
        return None
    crossings, delay_ms, sd_ms = expect["crossings"], expect["delay_ms"], expect["sd_ms"]
    count = 24 if sd_ms else 6
    timeout_s = 0.5 + crossings * (delay_ms + 6 * sd_ms) / 1000
    with space.opened(netns, lock=False) as fd:
        if fd is None:
            return None
        took = handshakes.handshakes_ms(fd, tuple(expect["probe"]), count, timeout_s)
    if len(took) < 3:
        return None if expect["loses"] else Effect(False, f"{len(took)} of {count} handshakes came through")
    mean, sd = fmean(took) / crossings, pstdev(took) / math.sqrt(crossings)
    text = f"{mean:.1f} ms" + (f" ± {sd:.1f} (sd)" if sd_ms else "") + f" by {len(took)} handshakes"
    return Effect(mean >= 0.85 * delay_ms and sd >= 0.5 * sd_ms, text)
