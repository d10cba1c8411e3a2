"""For each kind of fault something real to act on: params, a host, a look at the state, some traffic."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from contract_rig import Rig
from contract_rigs_host import CANNOT_HERE as HOST_CANNOT_HERE
from contract_rigs_host import HOST_NEED_ROOT, HOST_RIGS
from contract_rigs_net import NET_CANNOT_HERE, NET_NEED_ROOT, NET_RIGS
from contract_rigs_proxy import PROXY_RIGS
from process_rig import five_processes, host_of, spinning_in_a_cgroup

from chaosflow.core.host import state
from chaosflow.gpu.specs import gpu_named
from chaosflow.gpu.state import VirtualGpuState
from chaosflow.linux import cgroup, procs

__all__ = ["CANNOT_HERE", "NEED_ROOT", "RIGS", "Rig"]


@contextlib.contextmanager
def _processes(params: dict[str, Any]) -> Iterator[Rig]:
    with five_processes() as process:
        host = host_of(process)
        known = procs.tree(host.target.processes)
        yield Rig(params, host, lambda: [(ref.pid, ref.alive(), state(ref.pid) == "T") for ref in known])


@contextlib.contextmanager
def _quota() -> Iterator[Rig]:
    with spinning_in_a_cgroup("contract") as (process, folder):
        cgroup.set_cpu_quota(folder, cgroup.CpuQuota(150_000, 50_000))
        yield Rig({"percent": 20}, host_of(process), lambda: cgroup.read_cpu_quota(folder))


@contextlib.contextmanager
def _virtual_gpu() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vgpu"
        VirtualGpuState.create(path, gpu_named("h200")).close()
        host = host_of(None)
        host = replace(host, target=replace(host.target, included=True, vgpu_state=path))
        yield Rig({"device_id": 0, "target_freq_mhz": 600}, host, path.read_bytes)


RIGS: dict[str, Callable[[], contextlib.AbstractContextManager[Rig]]] = {
    "process.pause": lambda: _processes({"scope": "tree"}),
    "process.kill": lambda: _processes({"signal": "TERM"}),
    "host.cpu_quota": _quota,
    "gpu.clock": _virtual_gpu,
    **HOST_RIGS,
    **PROXY_RIGS,
    **NET_RIGS,
}
NEED_ROOT = {"host.cpu_quota", *HOST_NEED_ROOT, *NET_NEED_ROOT}
CANNOT_HERE = {**HOST_CANNOT_HERE, **NET_CANNOT_HERE}
