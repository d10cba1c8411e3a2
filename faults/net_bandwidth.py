"""``net.bandwidth``: one narrow line that all packets of the target share."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._net import shape, space, steer
from chaosflow.faults._net.fault import NetFault, first_of, in_namespace, led
from chaosflow.linux import netem, tc
from chaosflow.linux.netem import Netem
from chaosflow.linux.netlink import ROUTE, Message, Netlink

TBF_RUNG, NETEM_RUNG = "tc tbf on an ifb", "tc netem rate on an ifb"
_LO_BURST_BYTES = 128 * 1024  # lo's packets are up to 65,536 bytes; a smaller bucket hangs a transfer


class NetBandwidth(NetFault):
    """A token bucket: short bursts pass, the long-run rate holds; what waits longer than ``queue_ms`` is dropped.

    Each hook of ``direction: both`` has a line of its own.
    """

    kind: ClassVar[str] = "net.bandwidth"

    requires: ClassVar[str] = (
        "root (CAP_NET_ADMIN and CAP_SYS_ADMIN); sch_tbf or sch_netem, ifb, cls_bpf with sch_ingress and act_mirred or "
        "nf_tables"
    )
    cannot: ClassVar[str] = (
        "A line wider than the traffic is confirmed, and the evidence says that none had to wait. Other clients of that "
        "port on that interface share it"
    )

    rate_mbit_per_s: float = Field(gt=0.008, le=100_000)
    queue_ms: float = Field(200.0, gt=0, le=60_000)
    """How long a packet may wait for the line before it is dropped."""
    burst_kbytes: float | None = Field(None, gt=0, le=1_000_000)
    """KiB that pass at once; default 128 on ``lo``, else 5 ms of the rate, at least 16."""

    @property
    def bytes_per_s(self) -> int:
        return round(self.rate_mbit_per_s * 125_000)

    def needs(self) -> Capability:
        found = first_of((TBF_RUNG, ("steer", "tbf")), (NETEM_RUNG, ("steer", "netem")))
        return led(found, self.interface or "lo", self.direction)

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
        burst = round((self.burst_kbytes or 0) * 1024)
        if not burst:
            burst = _LO_BURST_BYTES if place.interface == "lo" else max(16 * 1024, self.bytes_per_s // 200)
        handle = stage_handle(host, name)
        stage = shape.Stage(steering, handle, self.queue_ms / 1000 + burst / self.bytes_per_s)
        state = {
            "rung": rung.rung,
            "stage": stage.to_json(),
            "burst_bytes": burst,
            "rate": self.bytes_per_s,
        }
        manual = in_namespace(host, steer.manual(steering))
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    async def inject(self, undo: Undo) -> None:
        stage = shape.Stage.from_json(undo.state["stage"])
        await asyncio.to_thread(
            shape.install, stage, lambda ifb, parent: self._add(undo.state, stage, ifb, parent)
        )

    def _add(self, state: dict[str, Any], stage: shape.Stage, ifb: int, parent: int) -> list[Message]:
        waiting = round(self.bytes_per_s * self.queue_ms / 1000) + state["burst_bytes"]
        if state["rung"].startswith(TBF_RUNG):
            options = netem.tbf_options(self.bytes_per_s, state["burst_bytes"], waiting)
            return [tc.qdisc_message(ifb, "tbf", stage.handle, parent, options)]
        spec = Netem(rate=self.bytes_per_s, limit=max(10, waiting // 1500))
        return [tc.qdisc_message(ifb, "netem", stage.handle, parent, netem.netem_options(spec))]

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return await asyncio.to_thread(_look, undo.state)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await asyncio.to_thread(shape.remove, shape.Stage.from_json(undo.state["stage"]))


def stage_handle(host: Host, name: str, part: str = "") -> int:
    """A qdisc handle that belongs to this fault: 1 to 0x7fff in its upper half, below what the kernel gives."""
    return (1 + steer.number_of(host.run_id, name, part) % 0x7FFE) << 16


def _look(state: dict[str, Any]) -> Effect:
    seen = shape.look(shape.Stage.from_json(state["stage"]))
    if seen is None:
        return Effect(False, "gone with 1 network namespace")
    if seen.in_place < seen.of:
        return Effect(False, f"in place at {seen.in_place} of {seen.of} hooks")
    rates = [
        netem.tbf_rate(o) if state["rung"].startswith(TBF_RUNG) else netem.read_netem(o).rate
        for o in seen.options
    ]
    text = f"line of {rates[0] / 125_000:g} Mbit/s, {seen.packets} packets through it, {seen.drops} dropped"
    if state["rung"].startswith(TBF_RUNG):
        text += (
            f", {seen.waits} waits"
            if seen.waits
            else "; none had to wait: it is wider than the traffic so far"
        )
    return Effect(rates == [state["rate"]] * seen.of, text, met=seen.packets > 0)
