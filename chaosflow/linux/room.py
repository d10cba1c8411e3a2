"""How much memory and disk space may be taken away without endangering the machine. Reads only.

A pressure fault keeps a floor: of memory the larger of 10 % and 512 MiB, of a file system the larger of
5 % and 1 GiB stays free.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from chaosflow.linux import cgroup, limits

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes."""

    total: int
    free: int
    """What could be had now by an ordinary user."""
    floor: int
    """What must stay free."""

    @property
    def spare(self) -> int:
        """Free above the floor, at least 0."""
        return max(0, self.free - self.floor)


def memory() -> Room:
    """Memory of this machine, or of the memory cgroup we live in where that is tighter (meminfo's
    MemAvailable: what can be had without swapping)."""
    info = {line.split(":")[0]: line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines()}
    total, free = int(info["MemTotal"]) * 1024, int(info["MemAvailable"]) * 1024
    for folder in _own_memory_cgroups():
        limit, used = limits.read_memory_limit(folder), limits.memory_used_bytes(folder)
        if limit and used is not None and 0 <= limit.limit_bytes < total:
            total, free = limit.limit_bytes, min(free, limit.limit_bytes - used)
    return Room(total, free, max(total // 10, 512 * MIB))


def _own_memory_cgroups() -> list[Path]:
    folder = cgroup.controller_folder(cgroup.cgroups_of(os.getpid()), "memory")
    if folder is None:
        return []
    mounts = set(cgroup.layout().mounts.values())
    chain = [folder, *folder.parents]
    top = next((i for i, f in enumerate(chain) if f in mounts), len(chain))
    return chain[:top]


def disk(path: Path) -> Room:
    """The file system that holds ``path``; OSError when there is no such path."""
    stat = os.statvfs(path)
    total = stat.f_blocks * stat.f_frsize
    return Room(total, stat.f_bavail * stat.f_frsize, max(total // 20, 1024 * MIB))


def disk_of(path: Path) -> str | None:
    """``major:minor`` of the whole disk that holds ``path``; None for tmpfs, overlay, NFS and the like."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.major(number) == 0 or not device.exists():
        return None
    whole = device.resolve()
    if (whole / "partition").exists():  # limits are of disks, not of partitions
        whole = whole.parent
    return (whole / "dev").read_text().strip()


def in_memory(path: Path) -> bool:
    """Whether files there take memory and not disk (tmpfs, ramfs)."""
    return _file_system(path) in ("tmpfs", "ramfs", "devtmpfs")


def _file_system(path: Path) -> str:
    number = path.stat().st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        if left.split()[2] == wanted:
            return right.split()[0]
    return ""
