"""``host.cpu_quota``: limit the CPU time of the cgroup that the target lives in (v1 CFS quota, v2 cpu.max)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults._target import NEEDS_CGROUP, OWN_CGROUP, check_cgroup, require_cgroup, target_cgroup
from chaosflow.linux import cgroup
from chaosflow.linux.cgroup import CpuQuota


class HostCpuQuota(FaultAtom):
    """Throttle the target's CPU as a container limit would: a burst up to the quota, then a stop.

    Moves no process: the limit is set on the cgroup the target is in, and refused if others share it.
    """

    kind: ClassVar[str] = "host.cpu_quota"
    acts_on: ClassVar[str] = "the cgroup that the target lives in: v1 `cpu.cfs_quota_us`, v2 `cpu.max`"
    requires: ClassVar[str] = NEEDS_CGROUP
    cannot: ClassVar[str] = (
        "Moves no process; refuses the root cgroup, one shared with strangers, and a limit looser than the one "
        "in force"
    )
    undone_by: ClassVar[str] = "echo the prior value > cpu.cfs_quota_us (v1) or cpu.max (v2) of the cgroup"

    percent: float = Field(gt=0, le=100_000)
    """Of one CPU: 20 = a fifth of a CPU, 200 = two CPUs."""
    period_us: int = Field(100_000, ge=1_000, le=1_000_000)
    """Longer periods mean longer stops."""

    @model_validator(mode="after")
    def _quota_is_possible(self) -> Self:
        if self.quota_us < 1_000:
            raise ValueError(
                f"percent {self.percent:g} of period_us {self.period_us} is {self.quota_us} µs per period; "
                f"the kernel's least is 1000 µs: raise percent or period_us"
            )
        return self

    @property
    def quota_us(self) -> int:
        return round(self.percent * self.period_us / 100)

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"cgroup:cpu:{target_cgroup(host, 'cpu') or 'target'}"})

    def check(self, host: Host) -> Capability:
        rung = "cgroup v1 cpu.cfs_quota_us" if cgroup.layout().cpu_version() == 1 else "cgroup v2 cpu.max"
        capability = check_cgroup(host, "cpu", _file, rung)
        return (capability.ok and self._looser(target_cgroup(host, "cpu"))) or capability

    def _looser(self, folder: Path | None) -> Capability | None:
        now = cgroup.read_cpu_quota(folder) if folder else None
        if now is not None and now.percent <= self.percent:
            return Capability.no(
                f"{folder} is limited to {now.percent:g} % already: {self.percent:g} % would loosen it",
                f"ask for less than {now.percent:g}",
            )
        return None

    async def plan(self, host: Host, name: str) -> Undo:
        folder = require_cgroup(host, "cpu", f"{self.kind} {name}")
        if (prior := cgroup.read_cpu_quota(folder)) is None:
            raise CapabilityError(f"{self.kind} {name}", f"{folder} has no CPU limit", OWN_CGROUP)
        stat = cgroup.cpu_stat(folder)
        state = {
            "folder": str(folder),
            "quota_us": self.quota_us,
            "period_us": self.period_us,
            "prior_quota_us": prior.quota_us,
            "prior_period_us": prior.period_us,
            "nr_periods": stat.get("nr_periods", 0),
            "nr_throttled": stat.get("nr_throttled", 0),
        }
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=_manual(folder, prior))

    async def inject(self, undo: Undo) -> None:
        folder = Path(undo.state["folder"])
        try:
            cgroup.set_cpu_quota(folder, CpuQuota(undo.state["quota_us"], undo.state["period_us"]))
        except OSError as e:
            cause = "is above the limit of the cgroup over it" if e.errno == errno.EINVAL else str(e.strerror)
            raise CapabilityError(
                f"{undo.kind} on {folder}",
                f"{undo.state['quota_us']} µs per {undo.state['period_us']} µs {cause}",
                "ask for less, or run as root",
            ) from e

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        folder, wanted = Path(undo.state["folder"]), undo.state
        now = cgroup.read_cpu_quota(folder)
        if now is None:
            return Effect(False, f"{folder} is gone")
        stat = cgroup.cpu_stat(folder)
        throttled = stat.get("nr_throttled", 0) - wanted["nr_throttled"]
        periods = stat.get("nr_periods", 0) - wanted["nr_periods"]
        text = f"{now.quota_us} of {now.period_us} µs in {folder.name}, {throttled} of {periods} periods throttled"
        if now.quota_us < 0:
            text = f"no limit in {folder.name}"
        return Effect(now == CpuQuota(wanted["quota_us"], wanted["period_us"]), text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        folder, prior = Path(undo.state["folder"]), undo.state
        wanted = CpuQuota(prior["prior_quota_us"], prior["prior_period_us"])
        if cgroup.read_cpu_quota(folder) in (None, wanted):
            return  # gone with the target, or put back already
        cgroup.set_cpu_quota(folder, wanted)


def _file(folder: Path) -> Path:
    v2 = folder / "cpu.max"
    return v2 if v2.exists() else folder / "cpu.cfs_quota_us"


def _manual(folder: Path, prior: CpuQuota) -> str:
    if (folder / "cpu.max").exists():
        quota = "max" if prior.quota_us < 0 else str(prior.quota_us)
        return f"echo '{quota} {prior.period_us}' > {folder}/cpu.max"
    return (
        f"echo -1 > {folder}/cpu.cfs_quota_us; echo {prior.period_us} > {folder}/cpu.cfs_period_us; "
        f"echo {prior.quota_us} > {folder}/cpu.cfs_quota_us"
    )
