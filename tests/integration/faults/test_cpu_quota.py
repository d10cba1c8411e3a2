"""host.cpu_quota on a real cgroup with a process that wants a whole CPU."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from process_rig import host_of, needs_root, spinning_in_a_cgroup, started

from chaosflow.core.errors import CapabilityError
from chaosflow.faults.host_cpu_quota import HostCpuQuota
from chaosflow.linux import cgroup
from chaosflow.linux.cgroup import CpuQuota

pytestmark = needs_root


def _used_share(pid: int, seconds: float) -> float:
    """CPUs used by one process over a while, from /proc/<pid>/schedstat (ns on a CPU)."""

    def on_cpu_ns() -> int:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])

    begin, before = time.monotonic(), on_cpu_ns()
    time.sleep(seconds)
    return (on_cpu_ns() - before) / 1e9 / (time.monotonic() - begin)


@pytest.mark.slow
def test_the_target_really_gets_less_cpu_and_all_of_it_back() -> None:
    with spinning_in_a_cgroup("less") as (process, folder):
        atom = HostCpuQuota(percent=10, period_us=50_000)
        undo = asyncio.run(atom.plan(host_of(process), "quota"))
        asyncio.run(atom.inject(undo))
        assert _used_share(process.pid, 1.0) < 0.16
        effect = asyncio.run(HostCpuQuota.is_active(undo))
        assert effect
        assert "5000 of 50000 µs" in effect.evidence
        throttled = int(effect.evidence.split(", ")[1].split()[0])
        assert throttled >= 5
        asyncio.run(HostCpuQuota.revert(undo))
        assert cgroup.read_cpu_quota(folder) == CpuQuota(-1, 100_000)
        periods = cgroup.cpu_stat(folder).get("nr_throttled")
        time.sleep(0.3)  # whatever others want of the machine: it is not throttled any more
        assert cgroup.cpu_stat(folder).get("nr_throttled") == periods


def test_the_prior_limit_comes_back_and_not_a_default() -> None:
    with spinning_in_a_cgroup("prior") as (process, folder):
        prior = CpuQuota(75_000, 50_000)
        cgroup.set_cpu_quota(folder, prior)
        undo = asyncio.run(HostCpuQuota(percent=50).plan(host_of(process), "quota"))
        asyncio.run(HostCpuQuota(percent=50).inject(undo))
        assert cgroup.read_cpu_quota(folder) == CpuQuota(50_000, 100_000)
        asyncio.run(HostCpuQuota.revert(undo))
        assert cgroup.read_cpu_quota(folder) == prior


def test_a_looser_limit_than_the_one_in_force_is_refused() -> None:
    with spinning_in_a_cgroup("looser") as (process, folder):
        cgroup.set_cpu_quota(folder, CpuQuota(10_000, 100_000))
        capability = HostCpuQuota(percent=20).check(host_of(process))
        assert not capability.ok
        assert "limited to 10 % already" in capability.reason


def test_a_cgroup_shared_with_strangers_is_refused_by_name() -> None:
    with spinning_in_a_cgroup("shared") as (process, folder), started("sleep", "1000") as stranger:
        (folder / "cgroup.procs").write_text(str(stranger.pid))
        capability = HostCpuQuota(percent=20).check(host_of(process))
        assert not capability.ok
        assert f"also holds sleep ({stranger.pid})" in capability.reason
        assert "systemd-run --scope" in capability.remedy


def test_the_root_cgroup_is_refused() -> None:
    version = cgroup.layout().cpu_version()
    mount = cgroup.layout().mounts["cpu" if version == 1 else ""]
    with started("sleep", "1000") as process:
        host = host_of(process)
        host = replace(host, target=replace(host.target, cgroups={"cpu" if version == 1 else "": str(mount)}))
        capability = HostCpuQuota(percent=20).check(host)
        assert not capability.ok
        assert "root cgroup" in capability.reason


def test_a_limit_above_the_parents_is_an_error_and_not_a_success() -> None:
    if cgroup.layout().cpu_version() == 2:
        pytest.skip("cgroup v2 accepts any limit and applies the parent's too")
    with spinning_in_a_cgroup("parent") as (process, folder):
        cgroup.set_cpu_quota(folder, CpuQuota(10_000, 100_000))
        child = folder / "child"
        child.mkdir()
        (child / "cgroup.procs").write_text(str(process.pid))
        atom = HostCpuQuota(percent=50)
        undo = asyncio.run(atom.plan(host_of(process), "quota"))
        with pytest.raises(CapabilityError, match="above the limit of the cgroup over it"):
            asyncio.run(atom.inject(undo))
        asyncio.run(HostCpuQuota.revert(undo))
        assert cgroup.read_cpu_quota(child) == CpuQuota(-1, 100_000)


def test_a_cgroup_that_is_gone_needs_no_undo() -> None:
    with spinning_in_a_cgroup("gone") as (process, _):
        undo = asyncio.run(HostCpuQuota(percent=50).plan(host_of(process), "quota"))
        asyncio.run(HostCpuQuota(percent=50).inject(undo))
    asyncio.run(HostCpuQuota.revert(undo))
    assert not asyncio.run(HostCpuQuota.is_active(undo))
