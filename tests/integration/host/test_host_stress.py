"""Pressure on the machine: that it is really there, keeps its floor, and goes whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_rig import RUN, born_in_a_cgroup, helpers_left, host_for, swept, until
from process_rig import needs_root

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Undo
from chaosflow.faults._stress.atom import StressFault
from chaosflow.faults.host_cpu_stress import HostCpuStress
from chaosflow.faults.host_disk_fill import HostDiskFill
from chaosflow.faults.host_io_stress import HostIoStress
from chaosflow.faults.host_memory_bandwidth import HostMemoryBandwidth
from chaosflow.faults.host_memory_pressure import HostMemoryPressure
from chaosflow.linux import cgroup, limits, procs, room, stressor
from chaosflow.linux.room import MIB

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _sweep() -> Iterator[None]:
    with swept():
        yield


def injected(atom: StressFault, name: str = "f") -> Undo:
    undo = asyncio.run(atom.plan(host_for(None), name))
    asyncio.run(atom.inject(undo))
    return undo


def reverted(atom: StressFault, undo: Undo) -> None:
    asyncio.run(atom.revert(undo))
    assert not asyncio.run(atom.is_active(undo))
    assert helpers_left() == []


def _anonymous_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    return 0.0


def test_memory_is_only_virtual_no_longer() -> None:
    """chaos-mesh 737: the stressor allocated, and touched nothing."""
    atom = HostMemoryPressure(mib=48)
    undo = injected(atom)
    (worker,) = stressor.workers(undo.state)
    assert 48 <= _anonymous_mib(worker.ref.pid) < 90
    effect = asyncio.run(atom.is_active(undo))
    assert effect
    assert 46 <= int(effect.evidence.split()[0]) <= 52, effect.evidence
    reverted(atom, undo)


def test_stressor_survives_its_revert_no_longer() -> None:
    """chaos-mesh 847: stress went on after recovery."""
    atom = HostCpuStress(workers=2, percent=30)
    undo = injected(atom)
    pids = [worker.ref for worker in stressor.workers(undo.state)]
    assert len(pids) == 2
    reverted(atom, undo)
    assert not any(ref.alive() for ref in pids)


def test_an_oom_killed_stressor_is_seen_and_does_not_break_the_revert() -> None:
    """chaos-mesh 2999."""
    atom = HostMemoryPressure(mib=16)
    undo = injected(atom)
    (worker,) = stressor.workers(undo.state)
    procs.send(worker.ref, signal.SIGKILL)  # as the OOM killer does it
    until(lambda: not worker.ref.alive())
    effect = asyncio.run(atom.is_active(undo))
    assert not effect
    assert "0 of 1 helpers alive" in effect.evidence
    reverted(atom, undo)


@pytest.mark.parametrize(
    "atom",
    [
        HostCpuStress(workers=2, percent=20),
        HostMemoryPressure(mib=16),
        HostMemoryBandwidth(workers=2, array_mib=4),
        HostIoStress(path="/var/tmp", file_mib=2, mib_per_s=2),
        HostDiskFill(path="/var/tmp", mib=8),
    ],
    ids=lambda atom: atom.kind,
)
def test_whichever_stressor_dies_is_seen_and_reaped_and_reverts(atom: StressFault) -> None:
    """chaos-mesh 847, 2999: a dead stressor goes unseen or breaks the recovery; chaosblade 398: zombies."""
    if not (able := atom.check(host_for(None))).ok:
        pytest.skip(able.reason)
    undo = injected(atom)
    refs = [worker.ref for worker in stressor.workers(undo.state)]
    procs.send(refs[0], signal.SIGKILL)
    until(lambda: not refs[0].alive())
    effect = asyncio.run(atom.is_active(undo))
    assert not effect
    assert f"{len(refs) - 1} of {len(refs)} helpers alive" in effect.evidence
    reverted(atom, undo)
    assert not [ref.pid for ref in refs if Path(f"/proc/{ref.pid}").exists()], "zombies"


@needs_root[0]
@needs_root[1]
def test_a_stressor_killed_by_the_kernel_for_its_memory_leaves_nothing() -> None:
    """chaos-mesh 2999, with the real OOM killer: the limit is that of the helper's own cgroup."""
    atom = HostMemoryBandwidth(workers=1, array_mib=64)
    undo = asyncio.run(atom.plan(host_for(None), "oom"))
    folders = cgroup.create_run_cgroup(undo.state["cgroup"], cgroup.HOLDING)
    folder = cgroup.controller_folder(folders, "memory")
    assert folder
    limits.set_memory_limit(folder, limits.MemoryLimit(40 * MIB, None))
    with pytest.raises(CapabilityError, match="ended at once"):
        asyncio.run(atom.inject(undo))
    assert limits.oom_kills(folder) >= 1
    reverted(atom, undo)


def test_one_dead_helper_of_two_is_not_a_success() -> None:
    """krkn source: an error only if all failed."""
    atom = HostCpuStress(workers=2, percent=20)
    undo = injected(atom)
    first = stressor.workers(undo.state)[0].ref
    procs.send(first, signal.SIGKILL)
    until(lambda: not first.alive())
    effect = asyncio.run(atom.is_active(undo))
    assert not effect
    assert "1 of 2 helpers alive" in effect.evidence
    reverted(atom, undo)


def test_cpu_stress_wants_what_was_asked() -> None:
    atom = HostCpuStress(workers=1, percent=50)
    undo = injected(atom)
    (worker,) = stressor.workers(undo.state)

    def cpu_and_wait_ns() -> tuple[int, int]:
        on_cpu, waited, _ = Path(f"/proc/{worker.ref.pid}/schedstat").read_text().split()
        return int(on_cpu), int(waited)

    begin, before = time.monotonic_ns(), cpu_and_wait_ns()
    time.sleep(0.6)
    elapsed, now = time.monotonic_ns() - begin, cpu_and_wait_ns()
    assert sum(now) - sum(before) > 0.25 * elapsed
    assert now[0] - before[0] < 0.75 * elapsed
    reverted(atom, undo)


def test_memory_bandwidth_is_measured() -> None:
    atom = HostMemoryBandwidth(workers=1, array_mib=8)
    undo = injected(atom)
    gb_per_s = float(asyncio.run(atom.is_active(undo)).evidence.split()[0])
    assert gb_per_s > 0.2
    reverted(atom, undo)


@pytest.mark.skipif(room.in_memory(Path("/var/tmp")), reason="needs /var/tmp on a disk")
@pytest.mark.parametrize("mode", ["read", "write"])
def test_io_stress_moves_bytes_at_its_rate_and_leaves_no_file(mode: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        atom = HostIoStress(path=folder, file_mib=4, mode=mode, mib_per_s=4)
        undo = injected(atom)
        time.sleep(0.7)
        (worker,) = stressor.workers(undo.state)
        assert worker.report[mode] / worker.report["seconds"] < 8 * MIB
        assert worker.report[mode] > 0
        assert asyncio.run(atom.is_active(undo))
        assert list(Path(folder).iterdir()) == []
        reverted(atom, undo)


ROOMY = pytest.mark.skipif(
    room.disk(Path("/var/tmp")).spare < 128 * MIB, reason="needs 128 MiB above the floor on /var/tmp"
)


@ROOMY
def test_disk_space_is_taken_and_given_back_without_a_name() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        atom = HostDiskFill(path=folder, mib=64)
        undo = injected(atom)
        (worker,) = stressor.workers(undo.state)
        assert os.stat(f"/proc/{worker.ref.pid}/fd/{worker.report['fd']}").st_blocks * 512 >= 64 * MIB
        assert list(Path(folder).iterdir()) == []
        reverted(atom, undo)


@needs_root[0]
@needs_root[1]
def test_a_file_system_of_its_own_fills_to_the_last_block() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
        try:
            atom = HostDiskFill(path=folder, percent=100, keep_floor=False)
            undo = injected(atom)
            with pytest.raises(OSError, match="No space left"):
                Path(folder, "x").write_bytes(b"x" * 8192)
            reverted(atom, undo)
            Path(folder, "x").write_bytes(b"x" * 8192)
        finally:
            subprocess.run(["umount", folder], check=True)


def test_floors_are_refused_before_anything_is_touched() -> None:
    host = host_for(None)
    total_mib = room.memory().total // MIB
    refusals = [
        HostMemoryPressure(mib=total_mib).check(host),
        HostMemoryBandwidth(workers=64, array_mib=max(1, total_mib // 64)).check(host),
        HostDiskFill(path="/tmp", mib=room.disk(Path("/tmp")).free // MIB).check(host),
        HostDiskFill(path="/tmp", percent=50, keep_floor=False).check(host),
        HostDiskFill(path="/no/such/folder", percent=50).check(host),
        HostIoStress(path="/proc").check(host) if room.in_memory(Path("/dev/shm")) else None,
    ]
    for refusal in refusals[:4]:
        assert refusal
        assert not refusal.ok
        assert "floor" in refusal.reason
        assert refusal.remedy
    assert refusals[4]
    assert "is no folder" in refusals[4].reason
    with pytest.raises(CapabilityError, match="floor"):
        asyncio.run(HostMemoryPressure(mib=total_mib).plan(host, "f"))
    assert helpers_left() == []


def test_a_disk_in_memory_is_no_disk() -> None:
    if not Path("/dev/shm").is_dir() or not room.in_memory(Path("/dev/shm")):
        pytest.skip("/dev/shm is no tmpfs here")
    capability = HostIoStress(path="/dev/shm").check(host_for(None))
    assert not capability.ok
    assert "in memory" in capability.reason


@pytest.mark.parametrize(
    "atom",
    [
        pytest.param(HostCpuStress(workers=1, percent=20), id="cpu"),
        pytest.param(HostMemoryPressure(mib=8), id="memory"),
        pytest.param(HostDiskFill(path="/var/tmp", mib=1), id="disk", marks=ROOMY),
    ],
)
def test_an_orphaned_helper_dies_with_its_injector(atom: StressFault) -> None:
    """litmus 2359: helper evicted, its effect orphaned. Here nobody heals: the kernel does."""
    code = (
        "import asyncio, os, signal, sys\n"
        f"from {type(atom).__module__} import {type(atom).__name__} as Atom\n"
        "from chaosflow.core.fault import Undo\n"
        "undo = Undo.model_validate_json(sys.argv[1])\n"
        "asyncio.run(Atom.model_validate(undo.state['wanted']).inject(undo))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    undo = asyncio.run(atom.plan(host_for(None), "orphan"))
    done = subprocess.run([sys.executable, "-c", code, undo.model_dump_json()], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not [line for line in helpers_left() if line.startswith("process")])
    asyncio.run(atom.revert(undo))
    assert helpers_left() == []


def test_two_of_a_kind_compose_and_end_apart() -> None:
    """pumba 115, 168: the second one failed, then it stuck."""
    atom = HostMemoryPressure(mib=8)
    one, two = injected(atom, "one"), injected(atom, "two")
    asyncio.run(atom.revert(one))
    assert not asyncio.run(atom.is_active(one))
    assert asyncio.run(atom.is_active(two))
    reverted(atom, two)


@needs_root[0]
@needs_root[1]
def test_room_sees_the_limit_of_our_own_cgroup() -> None:
    with born_in_a_cgroup(
        sys.executable,
        "-c",
        "import time\nfrom chaosflow.linux import room\ntime.sleep(0.3)\nprint(room.memory().total, flush=True)\n",
    ) as (process, folders):
        folder = cgroup.controller_folder(folders, "memory")
        assert folder
        limits.set_memory_limit(folder, limits.MemoryLimit(256 * MIB, None))
        assert process.stdout
        assert int(process.stdout.readline()) == 256 * MIB


def test_names_of_helpers_are_of_this_session() -> None:
    assert str(os.getpid()) in RUN
