"""What the atoms share that set the memory limit of the target's cgroup."""

from __future__ import annotations

from pathlib import Path

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Undo
from chaosflow.core.host import Host
from chaosflow.linux import cgroup, limits
from chaosflow.linux.limits import MemoryLimit
from chaosflow.linux.room import MIB

ACTS_ON = (
    "the cgroup that the target lives in: v1 `memory.limit_in_bytes` (and memsw), v2 `memory.max` (and swap)"
)
UNDONE_BY = "echo the prior value > memory.limit_in_bytes (v1) or memory.max (v2) of the cgroup"
_PAGE = 4096


def rung() -> str:
    version = cgroup.layout().version("memory")
    return "cgroup v1 memory.limit_in_bytes" if version == 1 else "cgroup v2 memory.max"


def file(folder: Path) -> Path:
    """What is written."""
    v2 = folder / "memory.max"
    return v2 if v2.exists() else folder / "memory.limit_in_bytes"


def mib(limit_bytes: int) -> str:
    return "no limit" if limit_bytes < 0 else f"{limit_bytes // MIB} MiB"


def swap_with(folder: Path, limit_bytes: int) -> int | None:
    """The swap setting that goes with a limit: no more swap than there was none before, so it bites."""
    now = limits.read_memory_limit(folder)
    if now is None or now.with_swap_bytes is None:
        return None
    return limit_bytes if file(folder).name == "memory.limit_in_bytes" else 0


def plan(kind: str, name: str, host: Host, folder: Path, limit_bytes: int) -> Undo:
    """The prior limit, and the one that is wanted. Reads only."""
    if (prior := limits.read_memory_limit(folder)) is None:
        raise CapabilityError(f"{kind} {name}", f"{folder} has no memory limit", "run as root")
    state = {
        "folder": str(folder),
        "limit_bytes": limit_bytes - limit_bytes % _PAGE,
        "prior_bytes": prior.limit_bytes,
        "prior_swap_bytes": prior.with_swap_bytes,
        "hits": limits.times_at_limit(folder),
        "oom_kills": limits.oom_kills(folder),
    }
    return Undo(kind=kind, name=name, run_id=host.run_id, state=state, manual=_manual(folder, prior))


def put_back(undo: Undo) -> None:
    """The prior limit again; nothing where the cgroup is gone with its target."""
    folder, prior = Path(undo.state["folder"]), undo.state
    wanted = MemoryLimit(prior["prior_bytes"], prior["prior_swap_bytes"])
    if limits.read_memory_limit(folder) in (None, wanted):
        return
    limits.set_memory_limit(folder, wanted)


def _manual(folder: Path, prior: MemoryLimit) -> str:
    if file(folder).name == "memory.max":
        values = {"memory.max": prior.limit_bytes, "memory.swap.max": prior.with_swap_bytes}
        none = "max"
    else:  # first the one above
        values = {
            "memory.memsw.limit_in_bytes": prior.with_swap_bytes,
            "memory.limit_in_bytes": prior.limit_bytes,
        }
        none = "-1"
    lines = [f"echo {none if v < 0 else v} > {folder}/{f}" for f, v in values.items() if v is not None]
    return "; ".join(lines)
