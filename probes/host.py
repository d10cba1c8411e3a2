"""This host, and the target's processes and cgroup: CPU, load, memory, throttling."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import psutil

from chaosflow.core.clock import NS_PER_S, Clock
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.probe import Probe, Reading


class HostProbe(Probe):
    """This machine, and the target's processes and cgroup: CPU, memory, throttling.

    Reads /proc and /sys once a second.
    """

    name: ClassVar[str] = "host"

    @classmethod
    def check(cls, host: Host) -> Capability:
        if not Path("/proc/stat").exists():
            return Capability.no("/proc is not mounted", "mount it")
        return Capability.yes("/proc and /sys/fs/cgroup")

    async def readings(self, clock: Clock) -> AsyncIterator[Reading]:
        tree, throttling = _Tree(self.host.target), _Throttling(self.host.target)
        psutil.cpu_percent()  # the first call only sets the start
        due_ns = clock.now_ns()
        while True:
            due_ns += NS_PER_S
            await clock.sleep_until(due_ns)
            now_ns = clock.now_ns()
            yield Reading(now_ns, "host.cpu_percent", psutil.cpu_percent())
            yield Reading(now_ns, "host.load_1min", os.getloadavg()[0])
            yield Reading(now_ns, "host.memory_available_bytes", float(psutil.virtual_memory().available))
            for series, value in (*tree.values(now_ns), *throttling.values()):
                yield Reading(now_ns, series, value)
            due_ns = max(due_ns, now_ns - NS_PER_S)  # after a long stall, no burst of make-up readings


class _Tree:
    """CPU and memory of all the target's processes."""

    def __init__(self, target: TargetHandle) -> None:
        self._target = target
        self._cpu_s: dict[tuple[int, float], float] = {}
        self._at_ns = 0

    def values(self, now_ns: int) -> Iterator[tuple[str, float]]:
        processes = _processes(self._target)
        if not processes:
            return
        cpu_s: dict[tuple[int, float], float] = {}
        rss_bytes = 0
        for process in processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s[process.pid, process.create_time()] = times.user + times.system
                rss_bytes += process.memory_info().rss
        used_s = sum(spent - self._cpu_s.get(who, 0.0) for who, spent in cpu_s.items())
        if self._at_ns:
            yield "host.target_cpu_percent", 100e9 * used_s / (now_ns - self._at_ns)
        yield "host.target_rss_bytes", float(rss_bytes)
        yield "host.target_processes", float(len(cpu_s))
        self._cpu_s, self._at_ns = cpu_s, now_ns


def _processes(target: TargetHandle) -> list[psutil.Process]:
    """By cgroup where the engine has its own (it survives a restart), else by process tree."""
    if target.included and (folder := target.cgroups.get("cpu") or target.cgroups.get("")):
        with suppress(OSError, ValueError):
            pids = [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
            return [p for pid in pids if (p := _process(pid)) is not None]
    found: dict[int, psutil.Process] = {}
    for ref in target.processes:
        if ref.alive() and (root := _process(ref.pid)) is not None:
            found[root.pid] = root
            with suppress(psutil.Error):
                found.update((child.pid, child) for child in root.children(recursive=True))
    return list(found.values())


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


class _Throttling:
    """How long the target's cgroup was held back by its CPU quota (cpu.stat, v1 and v2)."""

    def __init__(self, target: TargetHandle) -> None:
        folder = target.cgroups.get("cpu") or target.cgroups.get("")
        self._file = Path(folder) / "cpu.stat" if folder else None
        self._before = self._read()

    def values(self) -> Iterator[tuple[str, float]]:
        now = self._read()
        for key, value in now.items():
            if key in self._before:
                yield f"host.target_{key}", max(0.0, value - self._before[key])
        self._before = now

    def _read(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            fields = dict(line.split() for line in self._file.read_text().splitlines())
        except (OSError, ValueError):
            return {}
        values: dict[str, float] = {}
        if "nr_throttled" in fields:
            values["throttled_periods"] = float(fields["nr_throttled"])
        if "throttled_time" in fields:
            values["throttled_ms"] = float(fields["throttled_time"]) / 1e6  # v1: ns
        elif "throttled_usec" in fields:
            values["throttled_ms"] = float(fields["throttled_usec"]) / 1e3
        return values
