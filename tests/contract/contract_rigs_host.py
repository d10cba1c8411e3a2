"""Rigs of the host and process faults: small sizes, short times, cgroups and processes of our own."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from contract_rig import Rig
from host_rig import (
    a_disk,
    born_in_a_cgroup,
    disk_or_why_not,
    helpers_left,
    holding_memory,
    host_for,
    supervised,
    swept,
)
from process_rig import five_processes, started

from chaosflow.linux import cgroup, limits, procs, room


@contextlib.contextmanager
def _stress(params: dict[str, Any]) -> Iterator[Rig]:
    with swept():
        yield Rig(params, host_for(None), helpers_left)


@contextlib.contextmanager
def _fds() -> Iterator[Rig]:
    with five_processes() as process:
        host = host_for(process)
        known = procs.tree(host.target.processes)
        resource.prlimit(known[-1].pid, resource.RLIMIT_NOFILE, (77, 777))
        yield Rig(
            {"headroom": 2}, host, lambda: [resource.prlimit(r.pid, resource.RLIMIT_NOFILE) for r in known]
        )


@contextlib.contextmanager
def _memory(params: dict[str, Any], prior_bytes: int) -> Iterator[Rig]:
    with swept(), holding_memory() as (process, folder):
        prior = limits.read_memory_limit(folder)
        assert prior
        swap = None if prior.with_swap_bytes is None else prior_bytes
        limits.set_memory_limit(folder, limits.MemoryLimit(prior_bytes, swap))
        yield Rig(params, host_for(process), lambda: (limits.read_memory_limit(folder), helpers_left()))


@contextlib.contextmanager
def _cpuset() -> Iterator[Rig]:
    with born_in_a_cgroup("sleep", "1000") as (process, folders):
        folder = cgroup.controller_folder(folders, "cpuset")
        assert folder
        yield Rig({"count": 1}, host_for(process), lambda: limits.read_cpus(folder))


@contextlib.contextmanager
def _io() -> Iterator[Rig]:
    with a_disk() as path, born_in_a_cgroup("sleep", "1000") as (process, folders):
        folder, disk = cgroup.controller_folder(folders, "blkio"), room.disk_of(path)
        assert folder
        assert disk
        limits.set_io_limits(folder, disk, {"rbps": 9 << 20})
        params = {"path": str(path), "read_mib_per_s": 1, "write_mib_per_s": 2, "read_ops_per_s": 100}
        yield Rig(params, host_for(process), lambda: limits.read_io_limits(folder, disk))


@contextlib.contextmanager
def _crash_loop() -> Iterator[Rig]:
    with swept(), supervised() as (host, _):
        yield Rig({"alive_s": 0.1}, host, helpers_left)


@contextlib.contextmanager
def _drain() -> Iterator[Rig]:
    with started(sys.executable, "-c", "import time; time.sleep(1000)") as process:
        host = replace(host_for(process))
        yield Rig({"grace_s": 5}, host, lambda: [ref.alive() for ref in host.target.processes])


HOST_RIGS: dict[str, Callable[[], contextlib.AbstractContextManager[Rig]]] = {
    "host.cpu_stress": lambda: _stress({"workers": 2, "percent": 20}),
    "host.memory_pressure": lambda: _stress({"mib": 24}),
    "host.memory_bandwidth": lambda: _stress({"workers": 1, "array_mib": 4}),
    "host.io_stress": lambda: _stress({"path": "/var/tmp", "file_mib": 2, "mib_per_s": 2}),
    "host.disk_fill": lambda: _stress({"path": "/var/tmp", "mib": 8}),
    "host.fd_exhaust": _fds,
    "host.memory_limit": lambda: _memory({"headroom_mib": 8}, 200 << 20),
    "host.cpuset": _cpuset,
    "host.io_throttle": _io,
    "process.crash_loop": _crash_loop,
    "process.drain": _drain,
    "process.oom": lambda: _memory({"percent": 50}, 200 << 20),
}
HOST_NEED_ROOT = {"host.memory_limit", "host.cpuset", "host.io_throttle", "process.oom"}
_DISK = room.Path("/var/tmp")


def _reasons() -> dict[str, str]:
    reasons = {}
    if len(os.sched_getaffinity(0)) < 2 or not cgroup.layout().version("cpuset"):
        reasons["host.cpuset"] = "needs two CPUs and a cpuset controller"
    if reason := disk_or_why_not():
        reasons["host.io_throttle"] = reason
    if room.in_memory(_DISK) or room.disk(_DISK).spare < 64 * room.MIB:
        reasons |= dict.fromkeys(("host.io_stress", "host.disk_fill"), f"needs space on {_DISK}, on a disk")
    return reasons


CANNOT_HERE = _reasons()
"""Why a kind's rig cannot be built on this machine, where it cannot."""
