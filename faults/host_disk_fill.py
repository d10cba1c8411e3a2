"""``host.disk_fill``: a file system becomes full, down to a floor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.core.journal import state_dir
from chaosflow.faults._stress.atom import StressFault, program
from chaosflow.linux import room
from chaosflow.linux.room import MIB
from chaosflow.linux.stressor import Worker

_SHARED = ("/", "/tmp", "/var", "/var/lib", "/var/log", "/run", "/home", "/usr", ".")
"""What nobody may fill to the brim: other programs live there, and we."""


class HostDiskFill(StressFault):
    """Reserve disk space in a file without a name: it is free again the moment its holder ends.

    Writes no data (fallocate), so the disk itself stays idle. ``df`` shows it, ``du`` does not.
    """

    kind: ClassVar[str] = "host.disk_fill"
    acts_on: ClassVar[str] = (
        "the free space of the file system that holds `path`, by one helper's nameless file"
    )
    requires: ClassVar[str] = "a folder that we may write"
    cannot: ClassVar[str] = (
        "Keeps the larger of 5 % and 1 GiB free, refuses more, and gives space back when others need it; "
        "`keep_floor: false` fills to the last block, but no file system that holds the system or ChaosFlow"
    )

    path: str
    """A folder on the file system that is meant."""
    mib: int | None = Field(None, ge=1, le=1 << 30)
    """Space to take."""
    percent: float | None = Field(None, gt=0, le=100)
    """Instead of ``mib``: of what is free above the floor at the injection."""
    keep_floor: bool = True
    """False: down to nothing, on a file system of its own only."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.mib is None) == (self.percent is None):
            raise ValueError("give either mib or percent")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"disk-space:{self.path}"})

    def _room(self) -> room.Room:
        now = room.disk(Path(self.path))
        return now if self.keep_floor else room.Room(now.total, now.free, 0)

    def _bytes(self) -> int:
        if self.mib is not None:
            return self.mib * MIB
        wanted = int(self._room().spare * (self.percent or 0) / 100)
        return wanted - wanted % 4096

    def check(self, host: Host) -> Capability:
        folder = Path(self.path)
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            return Capability.no(f"{folder} is no folder that can be written", "name one, or run as root")
        if not self.keep_floor and (shared := _shares_with(folder)):
            return Capability.no(
                f"{folder} is on the file system of {shared}, which must keep its floor",
                "mount one of its own for the target's data, or leave keep_floor out",
            )
        now, memory = self._room(), room.memory()
        if self._bytes() > now.spare:
            return Capability.no(
                f"{self._bytes() // MIB} MiB would leave less than the floor of {now.floor // MIB} MiB on "
                f"{folder} ({now.free // MIB} MiB are free)",
                f"ask for at most {now.spare // MIB} MiB",
            )
        if room.in_memory(folder) and self._bytes() > memory.spare:
            return Capability.no(
                f"{folder} lies in memory, and {self._bytes() // MIB} MiB would leave too little of it",
                f"ask for at most {memory.spare // MIB} MiB",
            )
        return Capability.yes(f"fallocate on {folder}")

    async def plan(self, host: Host, name: str) -> Undo:
        if not (capability := self.check(host)).ok:  # others may have taken it since the run began
            raise CapabilityError(f"{self.kind} {name}", capability.reason, capability.remedy)
        return await super().plan(host, name)

    def commands(self, host: Host) -> list[list[str]]:
        return [program("hold_disk", self.path, self._bytes(), self._room().floor)]

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        asked = sum(worker.report["wanted_bytes"] for worker in workers)
        held = sum(_blocks_bytes(worker) for worker in workers)
        free = room.disk(Path(wanted["path"])).free
        text = (
            f"{held // MIB} MiB taken, {asked // MIB} asked; {free // MIB} MiB still free on {wanted['path']}"
        )
        return Effect(held >= 0.95 * asked, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return HostDiskFill.look(undo)


def _shares_with(folder: Path) -> str:
    """A path of the system, or of ours, on the same file system; empty if there is none."""
    device = folder.stat().st_dev
    for path in (*_SHARED, str(state_dir()), str(state_dir().parent)):
        if Path(path).exists() and Path(path).stat().st_dev == device:
            return path if path != "." else str(Path.cwd())
    return ""


def _blocks_bytes(worker: Worker) -> int:
    """What the helper's file really takes, as the file system counts it."""
    try:
        return os.stat(f"/proc/{worker.ref.pid}/fd/{worker.report['fd']}").st_blocks * 512
    except OSError:
        return 0
