"""Limits of the target's cgroup: that they bite, and that exactly the prior one comes back."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace

import pytest
from host_rig import a_disk, born_in_a_cgroup, disk_or_why_not, helpers_left, holding_memory, host_for
from process_rig import needs_root, started

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import Host
from chaosflow.faults.host_cpuset import HostCpuset
from chaosflow.faults.host_io_throttle import HostIoThrottle
from chaosflow.faults.host_memory_limit import HostMemoryLimit
from chaosflow.faults.process_oom import ProcessOom
from chaosflow.linux import cgroup, limits
from chaosflow.linux.limits import MemoryLimit
from chaosflow.linux.room import MIB

pytestmark = [*needs_root, pytest.mark.slow]
TWO_CPUS = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


def test_growth_beyond_the_memory_limit_is_killed_and_the_prior_limit_comes_back() -> None:
    grow = "import sys, time\nb = [bytearray(40 << 20)]\nprint(flush=True)\n" + (
        "time.sleep(0.5)\nwhile True: b.append(bytearray(b'x' * (1 << 20))); time.sleep(0.002)"
    )
    with born_in_a_cgroup(sys.executable, "-c", grow) as (process, folders):
        folder = cgroup.controller_folder(folders, "memory")
        assert folder
        assert process.stdout
        process.stdout.readline()
        prior = limits.read_memory_limit(folder)
        atom = HostMemoryLimit(headroom_mib=16)
        undo = asyncio.run(atom.plan(host_for(process), "limit"))
        asyncio.run(atom.inject(undo))
        assert asyncio.run(atom.is_active(undo))
        assert process.wait(20) == -9
        effect = asyncio.run(atom.is_active(undo))
        assert int(effect.evidence.split(", ")[-1].split()[0]) >= 1
        asyncio.run(atom.revert(undo))
        assert limits.read_memory_limit(folder) == prior


def test_a_limit_that_would_kill_is_refused_and_names_the_fault_that_kills() -> None:
    with holding_memory() as (process, _):
        capability = HostMemoryLimit(mib=8).check(host_for(process))
        assert not capability.ok
        assert "process.oom" in capability.remedy
        with pytest.raises(CapabilityError, match="holds"):
            asyncio.run(HostMemoryLimit(mib=8).plan(host_for(process), "limit"))


def test_a_looser_memory_limit_is_refused() -> None:
    with holding_memory() as (process, folder):
        limits.set_memory_limit(folder, MemoryLimit(100 * MIB, None))
        assert "100 MiB already" in HostMemoryLimit(mib=200).check(host_for(process)).reason


def test_memory_shared_with_strangers_is_not_limited() -> None:
    with holding_memory() as (process, folder), started("sleep", "1000") as stranger:
        (folder / "cgroup.procs").write_text(str(stranger.pid))
        for atom in (HostMemoryLimit(mib=500), ProcessOom(percent=50)):
            assert f"also holds sleep ({stranger.pid})" in atom.check(host_for(process)).reason


def test_the_kernel_really_kills_and_a_second_life_under_the_limit_too() -> None:
    with holding_memory() as (process, folder):
        prior = limits.read_memory_limit(folder)
        atom = ProcessOom(percent=50)
        undo = asyncio.run(atom.plan(host_for(process), "oom"))
        asyncio.run(atom.inject(undo))
        assert process.wait(10) == -9
        effect = asyncio.run(atom.is_active(undo))
        assert effect, effect.evidence
        assert "1 of 1 processes gone" in effect.evidence
        assert helpers_left() == []
        now = limits.read_memory_limit(folder)
        assert now
        assert now.limit_bytes == undo.state["limit_bytes"]
        asyncio.run(atom.revert(undo))
        assert limits.read_memory_limit(folder) == prior


def test_a_limit_that_kills_nobody_is_refused() -> None:
    with holding_memory() as (process, _):
        assert "kills nobody" in ProcessOom(mib=500).check(host_for(process)).reason


def test_every_limit_survives_a_target_that_is_gone() -> None:
    """litmus-go 591, chaos-mesh 4827: the target went away and the revert could not find it."""
    with holding_memory() as (process, _):
        host = host_for(process)
        done = []
        for atom in (HostMemoryLimit(headroom_mib=50), HostIoThrottle(path="/var/tmp", write_mib_per_s=1)):
            if not atom.check(host).ok:
                continue
            undo = asyncio.run(atom.plan(host, "gone"))
            asyncio.run(atom.inject(undo))
            done.append((atom, undo))
    assert done
    for atom, undo in done:
        asyncio.run(atom.revert(undo))
        effect = asyncio.run(atom.is_active(undo))
        assert not effect
        assert "is gone" in effect.evidence


@TWO_CPUS
def test_a_cpuset_confines_every_thread_at_once() -> None:
    with born_in_a_cgroup("sleep", "1000") as (process, folders):
        folder = cgroup.controller_folder(folders, "cpuset")
        assert folder
        prior, before = limits.read_cpus(folder), os.sched_getaffinity(process.pid)
        atom = HostCpuset(count=1)
        undo = asyncio.run(atom.plan(host_for(process), "one"))
        asyncio.run(atom.inject(undo))
        assert os.sched_getaffinity(process.pid) == {min(before)}
        assert "1 of 1 processes confined" in asyncio.run(atom.is_active(undo)).evidence
        asyncio.run(atom.revert(undo))
        assert limits.read_cpus(folder) == prior
        assert os.sched_getaffinity(process.pid) == before


@TWO_CPUS
def test_cpus_that_the_target_has_not_are_refused() -> None:
    with born_in_a_cgroup("sleep", "1000") as (process, _):
        assert "may not use CPUs 4000" in HostCpuset(cpus="0,4000").check(host_for(process)).reason
        assert "already" in HostCpuset(count=4000).check(host_for(process)).reason


WRITER = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
block = mmap.mmap(-1, 1 << 16)
n, began = 0, time.monotonic()
while time.monotonic() - began < 1.5:
    os.pwritev(fd, [block], n % 32 << 16)
    n += 1
print(n * (1 << 16) / (time.monotonic() - began), flush=True)
time.sleep(1000)
"""


@pytest.mark.skipif(bool(disk_or_why_not()), reason=disk_or_why_not())
def test_writes_past_the_page_cache_keep_to_the_limit() -> None:
    with a_disk() as path:
        argv = ("sh", "-c", f'sleep 0.4; exec {sys.executable} -c "$0" {path}/file', WRITER)
        with born_in_a_cgroup(*argv) as (process, folders):
            folder = cgroup.controller_folder(folders, "blkio")
            assert folder
            atom = HostIoThrottle(path=str(path), write_mib_per_s=2)
            undo = asyncio.run(atom.plan(host_for(process), "slow"))
            asyncio.run(atom.inject(undo))
            assert process.stdout
            rate = float(process.stdout.readline())
            effect = asyncio.run(atom.is_active(undo))
            assert effect
            assert rate < 4 * MIB, f"{rate / MIB:.2f} MiB/s; {effect.evidence}"
            asyncio.run(atom.revert(undo))
            assert limits.read_io_limits(folder, undo.state["disk"]) == dict.fromkeys(limits.IO_KEYS, -1)


def test_what_is_on_no_disk_is_refused() -> None:
    with born_in_a_cgroup("sleep", "1000") as (process, _):
        assert "no disk" in HostIoThrottle(path="/proc", write_mib_per_s=1).check(host_for(process)).reason
        assert not HostIoThrottle(path="/no/such", write_mib_per_s=1).check(host_for(process)).ok


def _in_the_root(host: Host, controller: str) -> Host:
    mount = cgroup.layout().mounts.get(controller) or cgroup.layout().mounts[""]
    return replace(host, target=replace(host.target, cgroups={controller: str(mount), "": str(mount)}))


def test_no_root_cgroup_is_limited() -> None:
    with started("sleep", "1000") as process:
        for controller, atom in (
            ("memory", HostMemoryLimit(mib=100_000)),
            ("cpuset", HostCpuset(count=1)),
            ("blkio", HostIoThrottle(path="/var/tmp", write_mib_per_s=1)),
            ("memory", ProcessOom(percent=1)),
        ):
            capability = atom.check(_in_the_root(host_for(process), controller))
            assert not capability.ok
            assert "root cgroup" in capability.reason or "no cgroup hierarchy" in capability.reason


def test_inject_and_verify_take_little_time() -> None:
    with holding_memory() as (process, _):
        atom = HostMemoryLimit(headroom_mib=50)
        undo = asyncio.run(atom.plan(host_for(process), "fast"))
        begin = time.monotonic()
        asyncio.run(atom.inject(undo))
        assert asyncio.run(atom.is_active(undo))
        assert time.monotonic() - begin < 2
        asyncio.run(atom.revert(undo))
