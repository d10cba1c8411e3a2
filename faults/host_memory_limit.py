"""``host.memory_limit``: limit the memory of the cgroup that the target lives in."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults import _memory
from chaosflow.faults._target import NEEDS_CGROUP, check_cgroup, require_cgroup, target_cgroup
from chaosflow.linux import limits
from chaosflow.linux.limits import MemoryLimit
from chaosflow.linux.room import MIB


class HostMemoryLimit(FaultAtom):
    """Squeeze the target's memory as a tight container limit would: its page cache goes, allocations wait.

    The limit lies above what the target holds, so that it need not be killed; growth beyond it is.
    """

    kind: ClassVar[str] = "host.memory_limit"
    acts_on: ClassVar[str] = _memory.ACTS_ON
    requires: ClassVar[str] = NEEDS_CGROUP
    cannot: ClassVar[str] = (
        "Moves no process, so memory charged elsewhere does not count; refuses a limit below what the target holds "
        "(that is `process.oom`) and one looser than the one in force"
    )
    undone_by: ClassVar[str] = _memory.UNDONE_BY

    mib: int | None = Field(None, ge=1, le=1 << 24)
    """The limit."""
    headroom_mib: int | None = Field(None, ge=1, le=1 << 24)
    """Instead of ``mib``: above what the target holds at the injection, page cache left out."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.mib is None) == (self.headroom_mib is None):
            raise ValueError("give either mib or headroom_mib")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"cgroup:memory:{target_cgroup(host, 'memory') or 'target'}"})

    def check(self, host: Host) -> Capability:
        capability = check_cgroup(host, "memory", _memory.file, _memory.rung())
        folder = target_cgroup(host, "memory")
        return (capability.ok and folder and self._unfit(folder)) or capability

    def _unfit(self, folder: Path) -> Capability | None:
        holds, now = limits.memory_firm_bytes(folder) or 0, limits.read_memory_limit(folder)
        wanted = self._bytes(folder)
        if wanted <= holds:
            return Capability.no(
                f"{folder} holds {holds // MIB} MiB: a limit of {wanted // MIB} would get the target killed",
                f"ask for more than {holds // MIB} MiB, or use process.oom",
            )
        if now and 0 <= now.limit_bytes <= wanted:
            return Capability.no(
                f"{folder} is limited to {now.limit_bytes // MIB} MiB already",
                f"ask for less than {now.limit_bytes // MIB}",
            )
        return None

    def _bytes(self, folder: Path) -> int:
        if self.mib is not None:
            return self.mib * MIB
        return (limits.memory_firm_bytes(folder) or 0) + (self.headroom_mib or 0) * MIB

    async def plan(self, host: Host, name: str) -> Undo:
        folder = require_cgroup(host, "memory", f"{self.kind} {name}")
        if unfit := self._unfit(folder):  # it may have grown since the run began
            raise CapabilityError(f"{self.kind} {name}", unfit.reason, unfit.remedy)
        return _memory.plan(self.kind, name, host, folder, self._bytes(folder))

    async def inject(self, undo: Undo) -> None:
        folder, wanted = Path(undo.state["folder"]), undo.state["limit_bytes"]
        try:
            limits.set_memory_limit(folder, MemoryLimit(wanted, _memory.swap_with(folder, wanted)))
        except OSError as e:
            cause = (
                f"the target holds {(limits.memory_firm_bytes(folder) or 0) // MIB} MiB that cannot be reclaimed"
                if e.errno == errno.EBUSY
                else str(e.strerror)
            )
            raise CapabilityError(f"{undo.kind} on {folder}", cause, "ask for more, or run as root") from e

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        folder = Path(undo.state["folder"])
        if (now := limits.read_memory_limit(folder)) is None:
            return Effect(False, f"{folder} is gone")
        if now.limit_bytes != undo.state["limit_bytes"]:
            return Effect(False, f"the limit of {folder.name} is {_memory.mib(now.limit_bytes)}")
        used = limits.memory_used_bytes(folder) or 0
        hits = limits.times_at_limit(folder) - undo.state["hits"]
        kills = limits.oom_kills(folder) - undo.state["oom_kills"]
        text = f"{used // MIB} of {_memory.mib(now.limit_bytes)} used in {folder.name}"
        if hits:  # newer kernels do not count them on v1
            text += f", limit hit {hits} times"
        return Effect(True, f"{text}, {kills} OOM kills")

    @staticmethod
    async def revert(undo: Undo) -> None:
        _memory.put_back(undo)
