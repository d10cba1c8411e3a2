"""``host.io_stress``: helpers that read and write at random, so that the disk is busy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._stress.atom import FRESH_S, StressFault, program
from chaosflow.linux import room
from chaosflow.linux.room import MIB
from chaosflow.linux.stressor import Worker

_SLOWEST_MIB_PER_S = 20


class HostIoStress(StressFault):
    """A noisy neighbour on the disk, past the page cache, in files without a name of its own."""

    kind: ClassVar[str] = "host.io_stress"
    acts_on: ClassVar[str] = "the disk that holds `path`, by helper processes; MiB/s are measured"
    requires: ClassVar[str] = "a folder on a disk that we may write, and `workers` x `file_mib` of space"
    cannot: ClassVar[str] = (
        "Refuses tmpfs, which is no disk; keeps the larger of 5 % and 1 GiB of the file system free. Where the file "
        "system has no O_DIRECT, writes are followed by fdatasync and the result says so"
    )

    path: str = "/var/tmp"
    """A folder on the disk that is meant."""
    workers: int = Field(1, ge=1, le=256)
    """Helpers, each with one operation under way."""
    file_mib: int = Field(64, ge=1, le=1 << 20)
    """Of each helper's file."""
    block_kib: int = Field(64, ge=4, le=16_384, multiple_of=4)
    """Of each operation."""
    mode: Literal["read", "write", "both"] = "both"
    """``both``: half of each, at random."""
    mib_per_s: float | None = Field(None, gt=0, le=1 << 20)
    """Highest rate of each helper; without it, as fast as the disk goes."""

    @model_validator(mode="after")
    def _file_holds_blocks(self) -> Self:
        if self.block_kib > self.file_mib * 1024:
            raise ValueError(f"block_kib {self.block_kib} is larger than the file of {self.file_mib} MiB")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"disk:{self.path}"})

    def check(self, host: Host) -> Capability:
        folder = Path(self.path)
        if not folder.is_dir():
            return Capability.no(f"{folder} is no folder", "name one on the disk that is meant")
        if room.in_memory(folder):
            return Capability.no(f"{folder} lies in memory, not on a disk", "name a folder on a disk")
        wanted, now = self.workers * self.file_mib * MIB, room.disk(folder)
        if wanted > now.spare:
            return Capability.no(
                f"{wanted // MIB} MiB of files would leave less than the floor of {now.floor // MIB} MiB "
                f"on {folder}",
                "ask for fewer workers or smaller files",
            )
        return Capability.yes(f"{self.workers} helper processes on {folder}")

    def commands(self, host: Host) -> list[list[str]]:
        rate = int((self.mib_per_s or 0) * MIB)
        file, block = self.file_mib * MIB, self.block_kib * 1024
        return [program("churn_disk", self.path, file, block, self.mode, rate)] * self.workers

    def ready_within_s(self) -> float:
        return 15.0 + self.workers * self.file_mib / _SLOWEST_MIB_PER_S

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        reports = [w.report for w in workers]
        moving = [r for r in reports if time.monotonic() - r["at_s"] < FRESH_S]
        rates = {way: sum(r[way] / r["seconds"] for r in moving) / MIB for way in ("read", "write")}
        how = "past the page cache" if all(r["direct"] for r in moving) else "with fdatasync"
        text = (
            f"{rates['read']:.3g} MiB/s read, {rates['write']:.3g} MiB/s written {how} "
            f"by {len(moving)} of {len(workers)} helpers"
        )
        return Effect(len(moving) == len(workers), text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return HostIoStress.look(undo)
