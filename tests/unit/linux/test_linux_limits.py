"""Reading and writing the limit files of both cgroup versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaosflow.linux import cgroup, limits, room
from chaosflow.linux.limits import MemoryLimit
from chaosflow.linux.room import MIB


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), (" 3 , 1-1", {1, 3}), ("7-8", {7, 8})]
)
def test_cpu_lists_are_read(text: str, cpus: set[int]) -> None:
    assert limits.parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "2-1", "1,,2", "1.5"])
def test_other_text_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (list|range) of CPUs"):
        limits.parse_cpus(text)


def test_v2_files_are_written_as_the_kernel_wants_them(tmp_path: Path) -> None:
    for name, text in (("memory.max", "max\n"), ("memory.swap.max", "4096\n"), ("io.max", "8:0 rbps=1 wbps=max riops=max wiops=max\n")):  # fmt: skip
        (tmp_path / name).write_text(text)
    assert limits.read_memory_limit(tmp_path) == MemoryLimit(-1, 4096)
    limits.set_memory_limit(tmp_path, MemoryLimit(8192, -1))
    assert (tmp_path / "memory.max").read_text() == "8192"
    assert (tmp_path / "memory.swap.max").read_text() == "max"
    assert limits.read_io_limits(tmp_path, "8:0") == {"rbps": 1, "wbps": -1, "riops": -1, "wiops": -1}
    assert limits.read_io_limits(tmp_path, "9:0") == dict.fromkeys(limits.IO_KEYS, -1)
    limits.set_io_limits(tmp_path, "8:0", {"rbps": -1, "wbps": 5})
    assert (tmp_path / "io.max").read_text() == "8:0 rbps=max wbps=5"


def test_v1_files_are_written_as_the_kernel_wants_them(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    for name in limits.V1_IO.values():
        (tmp_path / name).write_text("")
    assert limits.read_memory_limit(tmp_path) == MemoryLimit(-1, None)
    limits.set_memory_limit(tmp_path, MemoryLimit(-1, None))
    assert (tmp_path / "memory.limit_in_bytes").read_text() == "-1"
    limits.set_io_limits(tmp_path, "8:0", {"wbps": -1})
    assert (tmp_path / limits.V1_IO["wbps"]).read_text() == "8:0 0"


def test_what_is_gone_has_no_limits(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert limits.read_memory_limit(gone) is None
    assert limits.read_cpus(gone) is None
    assert limits.read_io_limits(gone, "8:0") is None
    assert limits.memory_used_bytes(gone) is None
    assert limits.oom_kills(gone) == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes cgroups of its own")
def test_real_memory_limits_are_read_as_they_are_set() -> None:
    folders = cgroup.create_run_cgroup(f"test-{os.getpid()}-memory")
    try:
        folder = cgroup.controller_folder(folders, "memory")
        assert folder
        prior = limits.read_memory_limit(folder)
        assert prior
        swap = None if prior.with_swap_bytes is None else 64 * MIB
        for wanted in (MemoryLimit(32 * MIB, swap), MemoryLimit(64 * MIB, swap), prior):
            limits.set_memory_limit(folder, wanted)
            assert limits.read_memory_limit(folder) == wanted
    finally:
        cgroup.kill_and_remove(folders)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes cgroups of its own")
def test_a_new_cpuset_takes_processes() -> None:
    if not cgroup.layout().version("cpuset"):
        pytest.skip("no cgroup hierarchy has the cpuset controller")
    folders = cgroup.create_run_cgroup(f"test-{os.getpid()}-cpuset")
    try:
        folder = cgroup.controller_folder(folders, "cpuset")
        assert folder
        assert limits.effective_cpus(folder)
    finally:
        cgroup.kill_and_remove(folders)


def test_room_keeps_its_floors() -> None:
    memory, disk = room.memory(), room.disk(Path("/"))
    assert memory.floor >= 512 * MIB
    assert memory.floor >= memory.total // 10
    assert disk.floor >= 1024 * MIB
    assert disk.floor >= disk.total // 20
    assert room.Room(100, 10, 20).spare == 0
    assert room.Room(100, 30, 20).spare == 10


def test_what_lies_in_memory_is_on_no_disk() -> None:
    assert room.disk_of(Path("/proc")) is None
    assert not room.in_memory(Path("/proc"))
    with pytest.raises(OSError, match="no-such"):
        room.disk(Path("/no-such-path"))
