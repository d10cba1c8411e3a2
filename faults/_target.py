"""What the process and host faults share: which processes are the target's, and whether we may touch them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host, ProcessRef
from chaosflow.linux import procs

Scope = Literal["tree", "pid"]


def still_to_come(host: Host) -> bool:
    """Whether the target's processes cannot be known yet but will be: its own checks must wait."""
    return (
        host.planning and not host.target.processes and (host.target.included or bool(host.target.selector))
    )


def check_processes(host: Host) -> Capability:
    """Whether the target's processes are known, alive, ours to signal, and not our own ancestors."""
    if still_to_come(host):
        return Capability.yes()
    if not host.target.processes:
        return Capability.no(
            "the target's process is not known",
            "say which it is: target.process with listen_port, pid_file, pid, container or cgroup",
        )
    found = procs.tree(host.target.processes)
    if not found:
        return Capability.no(f"no process of the target ({host.target.selector}) is alive", "start it first")
    if procs.ourselves() & {ref.pid for ref in found}:
        return Capability.no(
            f"the target's tree ({procs.describe(host.target.processes)}) contains ChaosFlow itself",
            "name the server's own process, not the shell that started both",
        )
    foreign = [ref for ref in found if not procs.may_signal(ref)]
    if foreign:
        return Capability.no(
            f"{procs.describe(foreign)}: belongs to another user",
            "run ChaosFlow as that user, or as root",
        )
    return Capability.yes()


def require_processes(host: Host, thing: str) -> tuple[ProcessRef, ...]:
    """The living roots of the target's trees; CapabilityError when there are none."""
    roots = tuple(ref for ref in host.target.processes if ref.alive())
    if not roots:
        raise CapabilityError(
            thing,
            f"no process of the target ({host.target.selector or 'unknown'}) is alive",
            "start it first",
        )
    return roots


def in_scope(roots: Iterable[ProcessRef], scope: Scope) -> list[ProcessRef]:
    """The living processes that a fault of this scope means: whole trees, or the roots alone."""
    return procs.tree(roots) if scope == "tree" else [ref for ref in roots if ref.alive()]


def to_json(refs: Iterable[ProcessRef]) -> list[dict[str, int | str]]:
    return [ref.to_json() for ref in refs]


def from_json(data: Iterable[dict[str, Any]]) -> list[ProcessRef]:
    return [ProcessRef.from_json(item) for item in data]
