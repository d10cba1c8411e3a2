"""``host.memory_pressure``: memory of this machine is taken, resident, down to a floor."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._stress.atom import StressFault, program
from chaosflow.faults._stress.hold_memory import anonymous_bytes
from chaosflow.linux import room
from chaosflow.linux.room import MIB
from chaosflow.linux.stressor import Worker

_GIB = 1 << 30
_SECONDS_PER_GIB = 2.0


class HostMemoryPressure(StressFault):
    """Take memory until little is left: page cache shrinks, allocations stall in reclaim.

    What is taken is written with noise and touched once a second. Where memory runs out all the same, the
    kernel ends the helper first.
    """

    kind: ClassVar[str] = "host.memory_pressure"
    acts_on: ClassVar[str] = "the memory of this machine, by a helper process whose resident size is verified"
    requires: ClassVar[str] = "nothing; as root the helper lives in a cgroup of its own"
    cannot: ClassVar[str] = (
        "Keeps the larger of 10 % and 512 MiB available, refuses more, and gives memory back when others need it. "
        "Does not get the target killed: that is `process.oom`"
    )

    mib: int | None = Field(None, ge=1, le=1 << 24)
    """Memory to hold."""
    percent: float | None = Field(None, gt=0, le=100)
    """Instead of ``mib``: of what is available above the floor at the injection."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.mib is None) == (self.percent is None):
            raise ValueError("give either mib or percent")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"host:memory"})

    def _bytes(self) -> int:
        if self.mib is not None:
            return self.mib * MIB
        return int(room.memory().spare * (self.percent or 0) / 100)

    def ready_within_s(self) -> float:
        return 15.0 + _SECONDS_PER_GIB * self._bytes() / _GIB

    def check(self, host: Host) -> Capability:
        now = room.memory()
        if self._bytes() > now.spare:
            return Capability.no(
                f"{self._bytes() // MIB} MiB would leave less than the floor of {now.floor // MIB} MiB "
                f"({now.free // MIB} MiB are available)",
                f"ask for at most {now.spare // MIB} MiB",
            )
        return Capability.yes("one helper process, resident memory")

    async def plan(self, host: Host, name: str) -> Undo:
        if not (capability := self.check(host)).ok:  # others may have taken it since the run began
            raise CapabilityError(f"{self.kind} {name}", capability.reason, capability.remedy)
        return await super().plan(host, name)

    def commands(self, host: Host) -> list[list[str]]:
        return [program("hold_memory", self._bytes())]

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        asked = sum(worker.report["wanted_bytes"] for worker in workers)
        resident = sum(anonymous_bytes(w.ref.pid) - w.report["own_bytes"] for w in workers)
        now = room.memory()
        text = f"{resident // MIB} MiB resident, {asked // MIB} asked; {now.free // MIB} MiB still available"
        return Effect(resident >= 0.95 * asked, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return HostMemoryPressure.look(undo)
