"""What a fault atom or a probe may look at and act on: this host, this run, this target."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

RUN_VARIABLE = "CHAOSFLOW_RUN"
"""Environment variable that every helper of a run carries: its run id."""


@cache
def boot_id() -> str:
    """The kernel's id of this boot: a pid means nothing across a reboot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process by pid, start time and boot: safe against a reused pid.

    ``start_ticks`` is field 22 of /proc/<pid>/stat (clock ticks since boot; proc(5)).
    """

    pid: int
    start_ticks: int
    boot: str = field(default_factory=boot_id)

    @classmethod
    def of(cls, pid: int) -> ProcessRef | None:
        """The process that has this pid now, or None."""
        ticks = start_ticks(pid)
        return None if ticks is None else cls(pid, ticks)

    def alive(self) -> bool:
        """Whether that very process still exists (a zombie counts as gone)."""
        return (
            self.boot == boot_id()
            and start_ticks(self.pid) == self.start_ticks
            and state(self.pid) not in ("Z", "X", "")
        )

    def to_json(self) -> dict[str, int | str]:
        return {"pid": self.pid, "start_ticks": self.start_ticks, "boot": self.boot}

    @classmethod
    def from_json(cls, data: dict[str, int | str]) -> ProcessRef:
        return cls(int(data["pid"]), int(data["start_ticks"]), str(data["boot"]))


def _stat_fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()  # the command may hold spaces and parentheses


def start_ticks(pid: int) -> int | None:
    fields = _stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


def state(pid: int) -> str:
    """R, S, D, T (stopped), Z …; empty when there is no such process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


@dataclass(frozen=True, slots=True)
class TargetHandle:
    """The service under test.

    ``processes`` are the roots of its process trees: empty while nothing is started (``check``
    before a run) or when a ``url`` target names no ``process``.
    """

    included: bool
    """The engine that ships with ChaosFlow, started and owned by this run."""
    url: str
    """Base URL as the load sees it without a proxy, ending in ``/v1``."""
    model: str = ""
    processes: tuple[ProcessRef, ...] = ()
    cgroups: dict[str, str] = field(default_factory=dict)
    """cgroup folders: v1 ``{"cpu": "/sys/fs/cgroup/cpu/…", …}``, v2 ``{"": "/sys/fs/cgroup/…"}``."""
    vgpu_state: Path | None = None
    """State file of the virtual GPU, where the target runs on one."""
    control: Path | None = None
    """Unix socket on which the included engine serves too: reachable from any network namespace."""
    health: str = "/health"
    """Path of its health check."""
    selector: str = ""
    """How the processes were found, for messages: ``listen_port 8000``."""


@dataclass(frozen=True, slots=True)
class ProxyHandle:
    """The fault proxy in the path between load and target."""

    control: Path
    """Unix socket of its control API."""


@dataclass(frozen=True, slots=True)
class Host:
    """Everything an atom is given. Building one changes nothing."""

    run_id: str
    target: TargetHandle
    proxy: ProxyHandle | None = None
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    planning: bool = False
    """True while nothing is started yet: ``target.processes`` and ``proxy`` are still to come."""
