"""What cannot be is refused when the scenario is read, in plain words: host and process faults."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import Host, TargetHandle
from chaosflow.faults.host_cpu_stress import HostCpuStress
from chaosflow.faults.host_cpuset import HostCpuset
from chaosflow.faults.host_disk_fill import HostDiskFill
from chaosflow.faults.host_fd_exhaust import HostFdExhaust, _limit_that_leaves
from chaosflow.faults.host_io_stress import HostIoStress
from chaosflow.faults.host_io_throttle import HostIoThrottle
from chaosflow.faults.host_memory_bandwidth import HostMemoryBandwidth
from chaosflow.faults.host_memory_limit import HostMemoryLimit
from chaosflow.faults.host_memory_pressure import HostMemoryPressure
from chaosflow.faults.process_crash_loop import ProcessCrashLoop
from chaosflow.faults.process_drain import ProcessDrain
from chaosflow.faults.process_oom import ProcessOom


@pytest.mark.parametrize(
    ("atom", "params", "words"),
    [
        (HostCpuStress, {}, "Field required"),
        (HostCpuStress, {"workers": 1, "percent": 101}, "less than or equal to 100"),
        (HostCpuset, {}, "either count or cpus"),
        (HostCpuset, {"count": 1, "cpus": "0"}, "either count or cpus"),
        (HostCpuset, {"cpus": "0-"}, "no list of CPUs"),
        (HostCpuset, {"cpus": "3-1"}, "no range of CPUs"),
        (HostDiskFill, {"path": "/x"}, "either mib or percent"),
        (HostDiskFill, {"mib": 1}, "path"),
        (HostFdExhaust, {"headroom": -1}, "greater than or equal to 0"),
        (HostIoStress, {"block_kib": 7}, "multiple of 4"),
        (HostIoStress, {"file_mib": 1, "block_kib": 2048}, "larger than the file"),
        (HostIoThrottle, {}, "at least one of read_mib_per_s"),
        (HostMemoryBandwidth, {"workers": 0}, "greater than or equal to 1"),
        (HostMemoryLimit, {"mib": 1, "headroom_mib": 1}, "either mib or headroom_mib"),
        (HostMemoryPressure, {"percent": 0}, "greater than 0"),
        (HostMemoryPressure, {}, "either mib or percent"),
        (ProcessCrashLoop, {"signal": "STOP"}, "KILL"),
        (ProcessDrain, {"grace_s": 0}, "greater than 0"),
        (ProcessOom, {"percent": 100}, "less than 100"),
        (ProcessOom, {}, "percent: 50"),
    ],
)
def test_impossible_host_params_are_refused(
    atom: type[FaultAtom], params: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        atom.model_validate(params)


@pytest.mark.parametrize(
    ("headroom", "used", "limit"),
    [
        (0, {0, 1, 2}, 3),
        (2, {0, 1, 2}, 5),
        (0, {0, 1, 2, 9}, 3),
        (1, {0, 2}, 3),
        (3, set(), 3),
        (0, set(), 0),
    ],
)
def test_the_limit_leaves_exactly_the_headroom(headroom: int, used: set[int], limit: int) -> None:
    found = _limit_that_leaves(headroom, frozenset(used))
    assert sum(number not in used for number in range(found)) == headroom
    assert found <= limit


def test_without_a_target_everything_that_needs_one_says_so() -> None:
    host = Host("r", TargetHandle(included=False, url="http://127.0.0.1:1/v1"))
    for atom in (
        HostFdExhaust(),
        HostCpuset(count=1),
        HostMemoryLimit(mib=1),
        HostIoThrottle(write_mib_per_s=1),
        ProcessOom(percent=50),
        ProcessDrain(),
        ProcessCrashLoop(),
    ):
        capability = atom.check(host)
        assert not capability.ok
        assert "not known" in capability.reason or "no cgroup hierarchy" in capability.reason
