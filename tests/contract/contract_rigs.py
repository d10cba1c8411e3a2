"""For each kind of fault something real to act on: params, a host, a look at the state, some traffic."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from process_rig import five_processes, host_of, spinning_in_a_cgroup
from proxy_rig import echo, proxy_to, round_trip_ms, server

from chaosflow.core.host import Host, ProxyHandle, state
from chaosflow.gpu.specs import gpu_named
from chaosflow.gpu.state import VirtualGpuState
from chaosflow.linux import cgroup, procs


@dataclass
class Rig:
    params: dict[str, Any]
    host: Host
    look: Callable[[], Any]
    """The state that a fault of this kind changes, comparable with ``==``."""
    drive: Callable[[], None] = field(default=lambda: None)
    """Make the traffic that shows the effect."""


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
def _proxied(params: dict[str, Any], *, resets: bool = False) -> Iterator[Rig]:
    with server(echo) as port, proxy_to(port) as proxy:

        def drive() -> None:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError), proxy.connect() as sock:
                for _ in range(3):
                    round_trip_ms(sock)
                assert not resets, "the connection should have been reset"

        host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
        yield Rig(params, host, lambda: proxy.call("GET", "/proxies/target/toxics"), drive)


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
    "proxy.latency": lambda: _proxied({"delay_ms": 20, "jitter_ms": 5, "direction": "both"}),
    "proxy.bandwidth": lambda: _proxied({"rate_kbytes_per_s": 10}),
    "proxy.reset_peer": lambda: _proxied({"after_ms": 0}, resets=True),
    "stream.stall": lambda: _proxied({"after_events": 2, "stall_ms": 100}),
    "gpu.clock": _virtual_gpu,
}
NEED_ROOT = {"host.cpu_quota"}
