"""cgroups of this host, v1, v2 or both."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from chaosflow.core.host import ProcessRef
from chaosflow.linux import cgroup, finding

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes cgroups of its own"),
]


def _name() -> str:
    return f"test-{os.getpid()}"


def test_a_processes_cgroups_are_folders_that_hold_it() -> None:
    found = cgroup.cgroups_of(os.getpid())
    assert found
    for folder in found.values():
        assert str(os.getpid()) in (Path(folder) / "cgroup.procs").read_text().split()


@pytest.mark.slow
def test_a_run_cgroup_is_made_filled_killed_and_gone() -> None:
    folders = cgroup.create_run_cgroup(_name())
    assert cgroup.cpu_folder(folders)
    assert cgroup.create_run_cgroup(_name()) == folders
    forks = "while true; do sleep 1000 & sleep 0.01; done"
    process = subprocess.Popen(["sh", "-c", f"kill -STOP $$; {forks}"], start_new_session=True)
    try:
        cgroup.enter(folders, process.pid)
        os.kill(process.pid, signal.SIGCONT)
        target = finding.by_cgroup(str(cgroup.cpu_folder(folders)))
        assert [ref.pid for ref in target] == [process.pid]
        assert cgroup.strangers(folders["cpu"] if "cpu" in folders else folders[""], []) != []
        members = [ProcessRef.of(pid) for pid in cgroup.members(next(iter(folders.values())))]
    finally:
        cgroup.kill_and_remove(folders)
        process.wait()
    assert not any(folder.exists() for folder in folders.values())
    assert not any(ref and ref.alive() for ref in members)
    cgroup.kill_and_remove(folders)


def test_cgroups_below_go_with_it() -> None:
    folders = cgroup.create_run_cgroup(_name() + "-nested")
    for folder in folders.values():
        (folder / "below").mkdir()
    cgroup.kill_and_remove(folders)
    assert not any(folder.exists() for folder in folders.values())


def test_quotas_are_read_as_they_are_set() -> None:
    folders = cgroup.create_run_cgroup(_name() + "-quota")
    try:
        folder = cgroup.cpu_folder(folders)
        assert folder
        for limit in (cgroup.CpuQuota(5_000, 20_000), cgroup.CpuQuota(900_000, 1_000_000), cgroup.CpuQuota(-1, 100_000)):  # fmt: skip
            cgroup.set_cpu_quota(folder, limit)
            assert cgroup.read_cpu_quota(folder) == limit
    finally:
        cgroup.kill_and_remove(folders)
    assert cgroup.read_cpu_quota(folder) is None


def test_the_root_is_known_as_the_root() -> None:
    assert all(cgroup.is_root(mount) for mount in cgroup.layout().mounts.values())
    assert not cgroup.is_root(Path("/sys/fs/cgroup/nowhere"))
