"""Limits of a cgroup other than CPU time: memory, CPUs, block I/O; version 1 and version 2 files.

All take the folder of the right controller (``cgroup.controller_folder``). See memory.rst, cpusets.rst and
blkio-controller.rst of Documentation/admin-guide/cgroup-v1, and cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

_V1_UNLIMITED = 1 << 62
"""v1 shows "no limit" as the largest multiple of the page size, just under 2^63."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Bytes a cgroup may hold; -1 = no limit.

    ``with_swap_bytes``: v1 memory and swap together (memsw), v2 swap alone; None = the kernel does not
    account swap.
    """

    limit_bytes: int
    with_swap_bytes: int | None = None


def read_memory_limit(folder: Path) -> MemoryLimit | None:
    """The limit in force; None where the folder has none (gone, root of v2, controller not enabled)."""
    names = _memory_files(folder)
    limit = _number(folder / names[0])
    return None if limit is None else MemoryLimit(limit, _number(folder / names[1]))


def set_memory_limit(folder: Path, wanted: MemoryLimit) -> None:
    """Set the limit; OSError as the kernel gives it (v1 EBUSY: it uses more, and nothing can be reclaimed).

    On v2 a limit below what is used makes the kernel kill at once.
    """
    memory, swap = (folder / name for name in _memory_files(folder))
    if wanted.with_swap_bytes is None or not swap.exists():
        memory.write_text(_text_of(wanted.limit_bytes, memory))
        return
    steps = [(memory, wanted.limit_bytes), (swap, wanted.with_swap_bytes)]
    if swap.name.startswith("memory.memsw") and not _fits_under(wanted.limit_bytes, _number(swap)):
        steps.reverse()  # v1 refuses a memory limit above that of memory and swap
    for file, value in steps:
        file.write_text(_text_of(value, file))


def _fits_under(limit: int, ceiling: int | None) -> bool:
    return ceiling is None or ceiling < 0 or 0 <= limit <= ceiling


def memory_used_bytes(folder: Path) -> int | None:
    """All that is charged, page cache included; None if unknown."""
    for name in ("memory.current", "memory.usage_in_bytes"):
        if (used := _number(folder / name)) is not None:
            return used
    return None


def memory_firm_bytes(folder: Path) -> int | None:
    """What is charged and is no file cache: it cannot be reclaimed without swap."""
    stat = _pairs(folder / "memory.stat")
    keys = (("anon", "shmem", "kernel"), ("total_rss", "total_shmem"))
    for names in keys:
        if names[0] in stat:
            return sum(stat.get(name, 0) for name in names)
    return None


def oom_kills(folder: Path) -> int:
    """Processes that the kernel has killed so far because of the limit of this cgroup or one above."""
    for name in ("memory.events", "memory.oom_control"):
        if (count := _pairs(folder / name).get("oom_kill")) is not None:
            return count
    return 0


def oom_killer_is_off(folder: Path) -> bool:
    """v1 only: a process that hits the limit then waits for ever."""
    return _pairs(folder / "memory.oom_control").get("oom_kill_disable", 0) == 1


def times_at_limit(folder: Path) -> int:
    """How often the limit was hit so far (v1 ``failcnt``, which newer kernels leave at 0; v2 memory.events)."""
    if (count := _number(folder / "memory.failcnt")) is not None:
        return count + (_number(folder / "memory.memsw.failcnt") or 0)
    return _pairs(folder / "memory.events").get("max", 0)


def _memory_files(folder: Path) -> tuple[str, str]:
    if (folder / "memory.limit_in_bytes").exists():
        return "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    return "memory.max", "memory.swap.max"


def _text_of(value: int, file: Path) -> str:
    if value >= 0:
        return str(value)
    return "max" if file.name in ("memory.max", "memory.swap.max") else "-1"


def parse_cpus(text: str) -> frozenset[int]:
    """``0-2,5`` -> {0, 1, 2, 5} (cpuset(7) list format). ValueError for anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or ("-" in part and not last):
            raise ValueError(f"{text!r} is no list of CPUs; write for example 0-2,5")
        span = range(int(first), int(last or first) + 1)
        if not span:
            raise ValueError(f"{part!r} is no range of CPUs: its end lies before its begin")
        found.update(span)
    return frozenset(found)


def read_cpus(folder: Path) -> str | None:
    """``cpuset.cpus`` as written (v2: empty = as the parent); None where there is none to read."""
    try:
        return (folder / "cpuset.cpus").read_text().strip()
    except OSError:
        return None


def effective_cpus(folder: Path) -> frozenset[int]:
    """The CPUs that processes in the cgroup may really use; empty if unknown."""
    for name in ("cpuset.effective_cpus", "cpuset.cpus.effective"):
        with contextlib.suppress(OSError, ValueError):
            return parse_cpus((folder / name).read_text())
    return frozenset()


def set_cpus(folder: Path, cpus: str) -> None:
    """OSError as the kernel gives it. Processes inside are moved at once."""
    (folder / "cpuset.cpus").write_text(cpus or "\n")  # an empty write would not reach the kernel


IO_KEYS = ("rbps", "wbps", "riops", "wiops")
"""Bytes and operations per second, as io.max of v2 calls them."""
V1_IO = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


def read_io_limits(folder: Path, device: str) -> dict[str, int] | None:
    """Limits on one disk (``254:0``), -1 = none; None where the folder has none to read."""
    if (folder / "io.max").exists():
        words = next((line.split()[1:] for line in _lines(folder / "io.max") if _is_of(line, device)), [])
        pairs = dict(word.split("=") for word in words)
        return {key: -1 if pairs.get(key, "max") == "max" else int(pairs[key]) for key in IO_KEYS}
    if not (folder / V1_IO["rbps"]).exists():
        return None
    found = {}
    for key, name in V1_IO.items():
        values = [int(line.split()[1]) for line in _lines(folder / name) if _is_of(line, device)]
        found[key] = values[0] if values else -1
    return found


def set_io_limits(folder: Path, device: str, wanted: dict[str, int]) -> None:
    """Set the given limits on one disk, -1 = none; the others stay. OSError as the kernel gives it."""
    if (folder / "io.max").exists():
        text = " ".join(f"{key}={'max' if value < 0 else value}" for key, value in wanted.items())
        (folder / "io.max").write_text(f"{device} {text}")
        return
    for key, value in wanted.items():
        (folder / V1_IO[key]).write_text(f"{device} {max(0, value)}")  # 0 takes the limit away


def io_done_bytes(folder: Path, device: str) -> dict[str, int]:
    """``read`` and ``write`` bytes that went to the disk from this cgroup so far; {} if unknown."""
    if (folder / "io.stat").exists():
        words = next((line.split()[1:] for line in _lines(folder / "io.stat") if _is_of(line, device)), [])
        pairs = dict(word.split("=") for word in words if "=" in word)
        return {"read": int(pairs.get("rbytes", 0)), "write": int(pairs.get("wbytes", 0))}
    rows = [line.split() for line in _lines(folder / "blkio.throttle.io_service_bytes")]
    return {row[1].lower(): int(row[2]) for row in rows if row[0] == device and row[1] in ("Read", "Write")}


def _is_of(line: str, device: str) -> bool:
    return line.split()[:1] == [device]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """A file's number, -1 for "no limit"; None when it cannot be read."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    if text == "max":
        return -1
    return -1 if int(text) >= _V1_UNLIMITED else int(text)


def _pairs(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _lines(path))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
