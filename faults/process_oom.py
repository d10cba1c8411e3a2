"""``process.oom``: the kernel's OOM killer ends the target, by a limit of its own cgroup."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults import _memory
from chaosflow.faults._stress.atom import program
from chaosflow.faults._target import (
    NEEDS_CGROUP,
    check_cgroup,
    from_json,
    require_cgroup,
    target_cgroup,
    to_json,
)
from chaosflow.linux import limits, procs, stressor
from chaosflow.linux.limits import MemoryLimit
from chaosflow.linux.room import MIB

_KILL_WITHIN_S = 10.0
_FREED_WITHIN_S = 0.5


class ProcessOom(FaultAtom):
    """A container limit below what the target holds: the kernel kills its largest process, really.

    The limit stays until the revert: a restarted target that needs more is killed again.
    """

    kind: ClassVar[str] = "process.oom"
    acts_on: ClassVar[str] = _memory.ACTS_ON
    requires: ClassVar[str] = NEEDS_CGROUP
    cannot: ClassVar[str] = (
        "Starts nothing again; the revert puts the limit back, not the process. Refuses a limit above what the "
        "target holds, and on cgroup v1 a cgroup whose OOM killer is switched off"
    )
    undone_by: ClassVar[str] = _memory.UNDONE_BY

    percent: float | None = Field(None, gt=0, lt=100)
    """Limit, of what the target holds at the injection (page cache left out)."""
    mib: int | None = Field(None, ge=1, le=1 << 24)
    """Limit, instead of ``percent``."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.mib is None) == (self.percent is None):
            raise ValueError("give either mib or percent, for example percent: 50")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"cgroup:memory:{target_cgroup(host, 'memory') or 'target'}"})

    def check(self, host: Host) -> Capability:
        capability = check_cgroup(host, "memory", _memory.file, f"OOM killer by {_memory.rung()}")
        folder = target_cgroup(host, "memory")
        return (capability.ok and folder and self._unfit(folder)) or capability

    def _unfit(self, folder: Path) -> Capability | None:
        holds, wanted = limits.memory_firm_bytes(folder) or 0, self._bytes(folder)
        if limits.oom_killer_is_off(folder):
            return Capability.no(f"the OOM killer of {folder} is switched off", "echo 0 > memory.oom_control")
        if wanted >= holds:
            return Capability.no(
                f"{folder} holds only {holds // MIB} MiB: a limit of {wanted // MIB} MiB kills nobody",
                f"ask for less than {holds // MIB} MiB",
            )
        return None

    def _bytes(self, folder: Path) -> int:
        if self.mib is not None:
            return self.mib * MIB
        return int((limits.memory_firm_bytes(folder) or 0) * (self.percent or 0) / 100)

    async def plan(self, host: Host, name: str) -> Undo:
        folder = require_cgroup(host, "memory", f"{self.kind} {name}")
        if unfit := self._unfit(folder):
            raise CapabilityError(f"{self.kind} {name}", unfit.reason, unfit.remedy)
        undo = _memory.plan(self.kind, name, host, folder, self._bytes(folder))
        most = (limits.memory_used_bytes(folder) or 0) + 64 * MIB
        pusher = stressor.plan(host.run_id, name, [program("push_memory", folder, most)])
        manual = f"{stressor.manual(pusher)}; {undo.manual}"
        victims = to_json(procs.tree(host.target.processes))
        state = {**undo.state, "pusher": pusher, "victims": victims}
        return undo.model_copy(update={"state": state, "manual": manual})

    async def inject(self, undo: Undo) -> None:
        folder = Path(undo.state["folder"])
        deadline = time.monotonic() + _KILL_WITHIN_S
        try:
            # v2 kills while it is written; v1 refuses with EBUSY as long as more is held
            while not await _limit_within(folder, undo.state["limit_bytes"], _FREED_WITHIN_S):
                await _push(undo, folder, deadline)
        finally:
            await stressor.end(undo.state["pusher"])

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        folder = Path(undo.state["folder"])
        if (now := limits.read_memory_limit(folder)) is None:
            return Effect(False, f"{folder} is gone")
        kills = limits.oom_kills(folder) - undo.state["oom_kills"]
        victims = from_json(undo.state["victims"])
        dead = sum(not ref.alive() for ref in victims)
        text = f"{kills} OOM kills, {dead} of {len(victims)} processes gone; limit {_memory.mib(now.limit_bytes)}"
        return Effect(kills > 0 and dead > 0 and now.limit_bytes == undo.state["limit_bytes"], text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        await stressor.end(undo.state["pusher"])
        _memory.put_back(undo)


async def _limit_within(folder: Path, limit_bytes: int, seconds: float) -> bool:
    """Try for a while: what was killed takes some time to give its memory back."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(_limit, folder, limit_bytes):
        if time.monotonic() > deadline or not limits.oom_kills(folder):
            return False
        await asyncio.sleep(0.01)
    return True


def _limit(folder: Path, limit_bytes: int) -> bool:
    """Set it; False where the kernel refuses since more is held (v1)."""
    try:
        limits.set_memory_limit(folder, MemoryLimit(limit_bytes, _memory.swap_with(folder, limit_bytes)))
    except OSError as e:
        if e.errno != errno.EBUSY:
            raise CapabilityError(f"process.oom on {folder}", str(e.strerror), "run as root") from e
        return False
    return True


async def _push(undo: Undo, folder: Path, deadline: float) -> None:
    """Limit at what is held, then a helper asks for more from within: the kernel must kill."""
    before = limits.oom_kills(folder)
    while not await asyncio.to_thread(_limit, folder, (limits.memory_used_bytes(folder) or 0) + 65_536):
        _give_up_after(deadline, folder)
    await stressor.end(undo.state["pusher"])
    await stressor.start(undo.state["pusher"], 5.0)
    while limits.oom_kills(folder) == before:
        _give_up_after(deadline, folder)
        await asyncio.sleep(0.005)


def _give_up_after(deadline: float, folder: Path) -> None:
    if time.monotonic() > deadline:
        raise CapabilityError(
            f"process.oom on {folder}", f"the kernel killed nobody within {_KILL_WITHIN_S:g} s", "see dmesg"
        )
