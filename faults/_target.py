"""What the process and host faults share: which processes are the target's, and whether we may touch them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host, ProcessRef
from chaosflow.linux import cgroup, procs

OWN_CGROUP = "start it in a cgroup of its own: systemd-run --scope COMMAND"
NEEDS_CGROUP = "root, and a cgroup in which nobody else lives (`systemd-run --scope COMMAND`); the included engine gets one"
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
            "say which it is: target.process with listen_port, pid_file, pid, name, container or cgroup",
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


def target_cgroup(host: Host, controller: str) -> Path | None:
    """The folder of a controller (by its v1 name) that the target lives in; None while not known."""
    cgroups = host.target.cgroups
    if not cgroups and host.target.processes:
        cgroups = cgroup.cgroups_of(host.target.processes[0].pid)
    return cgroup.controller_folder(cgroups, controller)


def check_cgroup(host: Host, controller: str, file: Callable[[Path], Path], rung: str) -> Capability:
    """Whether a limit may be set on the cgroup that the target lives in; ``rung`` names the mechanism.

    ``file`` gives what would be written. Refused: the root cgroup, one without the controller, one that
    cannot be written, one that holds strangers: moving the target would leave its memory charged behind.
    """
    version = cgroup.layout().version(controller)
    if version == 0:
        return Capability.no(
            f"no cgroup hierarchy has the {controller} controller", "mount one, or run on the host"
        )
    if not (capability := check_processes(host)).ok:
        return capability
    if still_to_come(host):
        if host.target.included and not cgroup.can_create():
            return Capability.no(
                f"cgroup v{version}: no cgroup can be made for the engine", "run as root, outside a container"
            )
        return Capability.yes(rung)
    folder = target_cgroup(host, controller)
    if folder is None:
        return Capability.no(f"the target has no {controller} cgroup", OWN_CGROUP)
    return _refusal(folder, controller, file(folder), host) or Capability.yes(rung)


def _refusal(folder: Path, controller: str, file: Path, host: Host) -> Capability | None:
    if cgroup.is_root(folder):
        return Capability.no(
            f"the target lives in the root cgroup {folder}, with everything else", OWN_CGROUP
        )
    if not file.exists():
        return Capability.no(f"the {controller} controller is not enabled in {folder}", OWN_CGROUP)
    if not _writable(file):
        return Capability.no(f"{file} cannot be written", "run as root")
    others = [] if host.target.included else cgroup.strangers(folder, procs.tree(host.target.processes))
    if others:
        return Capability.no(f"{folder} also holds {procs.describe(others[:5])}", OWN_CGROUP)
    return None


def _writable(file: Path) -> bool:
    try:
        with file.open("r+"):
            return True
    except OSError:
        return False


def require_cgroup(host: Host, controller: str, thing: str) -> Path:
    """The folder that ``check_cgroup`` accepted; CapabilityError when it is gone."""
    folder = target_cgroup(host, controller)
    if folder is None or not folder.exists():
        raise CapabilityError(thing, f"the target has no {controller} cgroup", OWN_CGROUP)
    return folder
