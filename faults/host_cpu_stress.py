"""``host.cpu_stress``: processes that want the CPU as much as the target does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host, ProcessRef
from chaosflow.faults._stress.atom import StressFault, program
from chaosflow.linux.stressor import Worker


class HostCpuStress(StressFault):
    """A noisy neighbour on the CPU: helpers that burn cycles in competition with the target.

    On cgroup v1 each weighs as much as any process outside a group; on v2 all of them together as one slice.
    """

    kind: ClassVar[str] = "host.cpu_stress"
    acts_on: ClassVar[str] = "the CPUs of this machine, by helper processes of ChaosFlow's own"
    requires: ClassVar[str] = "nothing; as root the helpers live in a cgroup of their own"
    cannot: ClassVar[str] = (
        "Cannot take from a target what its scheduling weight protects. Confirmed when the helpers used or waited "
        "for at least half of what was asked"
    )

    workers: int = Field(ge=1, le=1024)
    """Helpers, each wanting up to one CPU."""
    percent: float = Field(100.0, ge=1, le=100)
    """Share of the time each helper wants a CPU, in slices of 20 ms."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"host:cpu"})

    def check(self, host: Host) -> Capability:
        return Capability.yes(f"{self.workers} helper processes")

    def commands(self, host: Host) -> list[list[str]]:
        return [program("burn_cpu", self.percent)] * self.workers

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        used = waited = 0.0
        for worker in workers:
            on_cpu, waiting = _shares(worker)
            used, waited = used + on_cpu, waited + waiting
        asked = len(workers) * wanted["percent"] / 100
        text = f"{len(workers)} helpers used {used:.2f} CPUs and waited for {waited:.2f}, {asked:.2f} asked"
        return Effect(used + waited >= asked / 2, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return HostCpuStress.look(undo)


def _shares(worker: Worker) -> tuple[float, float]:
    """CPUs used by a helper since it began, and CPUs it was runnable for without getting one."""
    if not worker.ref.alive():
        return 0.0, 0.0
    on_cpu_ns, waiting_ns = _schedstat(worker.ref)
    elapsed_ns = max(1, time.monotonic_ns() - worker.report["began_ns"])
    return (on_cpu_ns - worker.report["burnt_before_ns"]) / elapsed_ns, waiting_ns / elapsed_ns


def _schedstat(ref: ProcessRef) -> tuple[int, int]:
    """ns on a CPU and ns waiting in a run queue (Documentation/scheduler/sched-stats.rst)."""
    try:
        on_cpu, waiting, _ = Path(f"/proc/{ref.pid}/schedstat").read_text().split()
    except OSError:
        return 0, 0
    return int(on_cpu), int(waiting)
