"""``host.cpuset``: the cgroup that the target lives in may use fewer CPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults._target import (
    NEEDS_CGROUP,
    OWN_CGROUP,
    check_cgroup,
    require_cgroup,
    still_to_come,
    target_cgroup,
)
from chaosflow.linux import cgroup, limits


class HostCpuset(FaultAtom):
    """Confine the target to some CPUs, as a pinned container or an offlined socket would."""

    kind: ClassVar[str] = "host.cpuset"
    acts_on: ClassVar[str] = "the cgroup that the target lives in: `cpuset.cpus`; processes move at once"
    requires: ClassVar[str] = NEEDS_CGROUP
    cannot: ClassVar[str] = (
        "Needs at least two CPUs to take any away; a thread that pinned itself gets its own mask back from newer "
        "kernels only"
    )
    undone_by: ClassVar[str] = "echo the prior list > cpuset.cpus of the cgroup"

    count: int | None = Field(None, ge=1, le=8192)
    """CPUs left: the first ones of those it may use now."""
    cpus: str | None = None
    """Instead of ``count``: which ones, as ``0-2,5``."""

    @field_validator("cpus")
    @classmethod
    def _list_of_cpus(cls, text: str | None) -> str | None:
        if text is not None:
            limits.parse_cpus(text)
        return text

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.count is None) == (self.cpus is None):
            raise ValueError("give either count or cpus")
        return self

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"cgroup:cpuset:{target_cgroup(host, 'cpuset') or 'target'}"})

    def check(self, host: Host) -> Capability:
        rung = f"cgroup v{cgroup.layout().version('cpuset')} cpuset.cpus"
        capability = check_cgroup(host, "cpuset", lambda folder: folder / "cpuset.cpus", rung)
        if not capability.ok:
            return capability
        folder = target_cgroup(host, "cpuset")
        now = limits.effective_cpus(folder) if folder else frozenset(os.sched_getaffinity(0))
        if folder is None and not still_to_come(host):
            return Capability.no("the target has no cpuset cgroup", OWN_CGROUP)
        return self._unfit(now) or capability

    def _unfit(self, now: frozenset[int]) -> Capability | None:
        wanted = self._chosen(now)
        if not wanted <= now:
            return Capability.no(
                f"the target may not use CPUs {_list(wanted - now)}", f"choose from {_list(now)}"
            )
        if wanted == now:
            return Capability.no(f"the target has only CPUs {_list(now)} already", "ask for fewer")
        return None

    def _chosen(self, now: frozenset[int]) -> frozenset[int]:
        if self.cpus is not None:
            return limits.parse_cpus(self.cpus)
        return frozenset(sorted(now)[: self.count or 1])  # the doctor names neither: can any be taken away?

    async def plan(self, host: Host, name: str) -> Undo:
        folder = require_cgroup(host, "cpuset", f"{self.kind} {name}")
        now, prior = limits.effective_cpus(folder), limits.read_cpus(folder)
        if prior is None or (unfit := self._unfit(now)):
            cause = f"{folder} has no cpuset.cpus" if prior is None else unfit.reason if unfit else ""
            raise CapabilityError(f"{self.kind} {name}", cause, OWN_CGROUP)
        state = {"folder": str(folder), "cpus": sorted(self._chosen(now)), "prior": prior}
        manual = f"echo '{prior}' > {folder}/cpuset.cpus"
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    async def inject(self, undo: Undo) -> None:
        folder = Path(undo.state["folder"])
        try:
            limits.set_cpus(folder, _list(undo.state["cpus"]))
        except OSError as e:
            raise CapabilityError(
                f"{undo.kind} on {folder}", f"CPUs {_list(undo.state['cpus'])}: {e.strerror}", "run as root"
            ) from e

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        """Looks at where every thread may run, not only at the file."""
        folder, wanted = Path(undo.state["folder"]), frozenset(undo.state["cpus"])
        now = limits.effective_cpus(folder)
        if not folder.exists():
            return Effect(False, f"{folder} is gone")
        allowed = [_allowed(pid) for pid in cgroup.members(folder)]
        confined = sum(cpus <= wanted for cpus in allowed if cpus)
        text = f"CPUs {_list(now)} in {folder.name}, {confined} of {len(allowed)} processes confined"
        return Effect(now == wanted and confined == len(allowed), text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        folder, prior = Path(undo.state["folder"]), undo.state["prior"]
        if limits.read_cpus(folder) in (None, prior):
            return  # gone with the target, or put back already
        limits.set_cpus(folder, prior)


def _allowed(pid: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return frozenset()


def _list(cpus: frozenset[int] | list[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))
