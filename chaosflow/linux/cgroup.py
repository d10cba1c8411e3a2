"""Control groups, version 1, version 2 and both at once (hybrid), through their file systems.

Folders travel as ``{"cpu": Path, …}`` for v1 controllers and ``{"": Path}`` for the unified hierarchy;
a hybrid host has both. See cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaosflow.core.errors import UndoError
from chaosflow.core.host import ProcessRef, state

TOP = "chaosflow"
"""Folder below each mount that holds the cgroups of all runs."""
OURS = ("", "cpu", "cpuacct", "cpuset", "memory", "freezer", "pids", "blkio")
"""Hierarchies in which the included engine gets a cgroup of its own."""
HOLDING = ("", "freezer", "memory", "pids")
"""Those in which a helper gets one. Not cpu: on v1 a group weighs as much as one process outside it."""
_OURS_V2 = ("cpu", "cpuset", "memory", "pids", "io")
_V2_NAMES = {"blkio": "io", "cpuacct": "cpu"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where this host mounts its hierarchies; ``mounts[""]`` is the unified one."""

    mounts: dict[str, Path]
    roots: dict[str, str]
    """Path, as /proc/<pid>/cgroup writes it, that each mount shows as its top."""

    def cpu_version(self) -> int:
        """1 or 2, whichever has the cpu controller; 0 = neither."""
        return self.version("cpu")

    def version(self, controller: str) -> int:
        """1 or 2, whichever has the controller (by its v1 name, e.g. ``blkio``); 0 = neither."""
        if controller in self.mounts:
            return 1
        unified, name = self.mounts.get(""), _V2_NAMES.get(controller, controller)
        return 2 if unified and name in _words(unified / "cgroup.controllers") else 0


def layout() -> Layout:
    """Read the mounts of this process's mount namespace; changes nothing."""
    mounts: dict[str, Path] = {}
    roots: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        root, mountpoint = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if kind == "cgroup2":
            names = [""]
        elif kind == "cgroup":
            names = [name for name in options.split(",") if name not in ("rw", "ro")]
        else:
            continue
        for name in names:
            mounts.setdefault(name, Path(mountpoint))
            roots.setdefault(name, root)
    return Layout(mounts, roots)


def cgroups_of(pid: int) -> dict[str, str]:
    """The cgroup folders a process is in, as ``TargetHandle.cgroups`` wants them; {} when it is gone."""
    where = layout()
    found: dict[str, str] = {}
    for line in _text(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            if name in where.mounts:
                inner = os.path.relpath(path, where.roots[name])
                folder = where.mounts[name] / inner
                found[name] = str(where.mounts[name] if inner == "." else folder)
    return found


def is_root(folder: Path) -> bool:
    """Whether a folder is the top of its hierarchy, which takes no limit."""
    return folder in layout().mounts.values()


def members(folder: Path) -> set[int]:
    """Pids in a cgroup and in all cgroups below it; zombies left out."""
    found = {int(word) for procs in folder.rglob("cgroup.procs") for word in _words(procs)}
    return {pid for pid in found if state(pid) not in ("Z", "X", "")}


def strangers(folder: Path, target: Iterable[ProcessRef]) -> list[ProcessRef]:
    """Processes in the cgroup that are not among ``target`` (the whole tree, not only its roots)."""
    ours = {ref.pid for ref in target}
    refs = (ProcessRef.of(pid) for pid in sorted(members(folder) - ours))
    return [ref for ref in refs if ref is not None]


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """CPU time a cgroup may use per period; ``quota_us`` -1 = no limit."""

    quota_us: int
    period_us: int

    @property
    def percent(self) -> float:
        """Of one CPU; infinite without a limit."""
        return float("inf") if self.quota_us < 0 else 100 * self.quota_us / self.period_us


def cpu_folder(cgroups: Mapping[str, str | Path]) -> Path | None:
    """The folder whose files limit CPU time: the v1 controller's, else the unified one's if it has cpu."""
    return controller_folder(cgroups, "cpu")


def controller_folder(cgroups: Mapping[str, str | Path], controller: str) -> Path | None:
    """The folder of a controller (by its v1 name): v1's own, else the unified one's if it has it."""
    if controller in cgroups:
        return Path(cgroups[controller])
    unified = cgroups.get("")
    if unified is None or layout().version(controller) != 2:
        return None
    return Path(unified)


def read_cpu_quota(folder: Path) -> CpuQuota | None:
    """The limit in force; None where the folder has none to read (gone, root, controller not enabled)."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
            return CpuQuota(-1 if quota == "max" else int(quota), int(period))
        return CpuQuota(
            int((folder / "cpu.cfs_quota_us").read_text()), int((folder / "cpu.cfs_period_us").read_text())
        )
    except OSError:
        return None


def set_cpu_quota(folder: Path, limit: CpuQuota) -> None:
    """Set the limit; OSError as the kernel gives it (EINVAL: above the parent's limit)."""
    if (folder / "cpu.max").exists():
        quota = "max" if limit.quota_us < 0 else str(limit.quota_us)
        (folder / "cpu.max").write_text(f"{quota} {limit.period_us}")
        return
    now = read_cpu_quota(folder)
    if now is not None and now.period_us != limit.period_us:
        # unlimited in between: no pair of old and new values can be refused for exceeding a parent's share
        (folder / "cpu.cfs_quota_us").write_text("-1")
        (folder / "cpu.cfs_period_us").write_text(str(limit.period_us))
    (folder / "cpu.cfs_quota_us").write_text(str(limit.quota_us))


def cpu_stat(folder: Path) -> dict[str, int]:
    """``nr_periods``, ``nr_throttled`` and more of ``cpu.stat``; {} when it cannot be read."""
    pairs = (line.split() for line in _text(folder / "cpu.stat").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def can_create() -> bool:
    """Whether a cgroup with the cpu controller could be made here; makes none."""
    where = layout()
    version = where.cpu_version()
    top = where.mounts.get("cpu" if version == 1 else "")
    return bool(version) and top is not None and os.access(top, os.W_OK)


def run_folders(name: str, controllers: Iterable[str] = OURS) -> dict[str, Path]:
    """Where ``create_run_cgroup`` would make its folders. Reads only."""
    mounts = layout().mounts
    return {c: mounts[c] / TOP / name for c in controllers if c in mounts}


def create_run_cgroup(name: str, controllers: Iterable[str] = OURS) -> dict[str, Path]:
    """Make ``…/chaosflow/<name>`` in every hierarchy that can be written; {} without privilege.

    On v2 the controllers are enabled on the way down (enabling limits nothing) and stay enabled above
    ``chaosflow``. Idempotent. Moves no process: see ``enter``.
    """
    folders: dict[str, Path] = {}
    where = layout()
    for controller, folder in run_folders(name, controllers).items():
        mount = where.mounts[controller]
        if _make(folder):
            folders[controller] = folder
            if controller == "":
                _enable(mount, folder)
    return folders


def _make(folder: Path) -> bool:
    for _ in range(20):  # another run may remove the empty parent between our two steps
        try:
            for new in (folder.parent, folder):
                new.mkdir(exist_ok=True)
                _fill_cpuset(new)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        return True
    return False


def _fill_cpuset(folder: Path) -> None:
    """A new v1 cpuset is empty, and takes no process before it has CPUs and memory nodes (cpuset(7))."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder / "cpuset.memory_migrate").exists() and not _text(folder / file).strip():
            (folder / file).write_text(_text(folder.parent / file))


def _enable(mount: Path, folder: Path) -> None:
    for parent in (mount, folder.parent):
        for controller in set(_OURS_V2) & _words(parent / "cgroup.controllers"):
            if controller not in _words(parent / "cgroup.subtree_control"):
                with contextlib.suppress(OSError):
                    (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def enter(folders: Mapping[str, Path], pid: int) -> None:
    """Move a process (and what it will fork) into the cgroups; OSError as the kernel gives it."""
    for folder in folders.values():
        (folder / "cgroup.procs").write_text(str(pid))


def kill_and_remove(folders: Mapping[str, Path | str], timeout_s: float = 5.0) -> None:
    """Kill all processes in the cgroups, then remove them; what is gone already is no error.

    Idempotent. Raises UndoError when a process or a folder is still there after ``timeout_s``.
    """
    paths = {name: Path(folder) for name, folder in folders.items()}
    deadline = time.monotonic() + timeout_s
    while True:
        kill(paths)
        left = [folder for folder in paths.values() if not _remove(folder)]
        if not left:
            break
        if time.monotonic() > deadline:
            raise UndoError(
                f"cgroup {left[0]}",
                f"could not be removed; it holds {sorted(members(left[0])) or 'nothing'}",
                f"kill -9 $(cat {left[0]}/cgroup.procs); rmdir {left[0]}",
            )
        time.sleep(0.01)
    for folder in paths.values():
        with contextlib.suppress(OSError):  # other runs are still in it, or it is gone
            if folder.parent.name == TOP:
                folder.parent.rmdir()


def kill(folders: Mapping[str, Path]) -> None:
    """SIGKILL everything in the cgroups, forks included: ``cgroup.kill``, else freeze, kill, thaw."""
    for folder in folders.values():
        if (folder / "cgroup.kill").exists():
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
    frozen = folders.get("freezer")
    _freezer(frozen, "FROZEN")
    for folder in folders.values():
        for pid in members(folder):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
    _freezer(frozen, "THAWED")


def _freezer(folder: Path | None, to: str) -> None:
    if folder is not None:
        with contextlib.suppress(OSError):
            (folder / "freezer.state").write_text(to)


def _remove(folder: Path) -> bool:
    """Remove a cgroup and those below it; False while something is in it."""
    try:
        for child in folder.iterdir():
            if child.is_dir() and not _remove(child):
                return False
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _words(path: Path) -> set[str]:
    return set(_text(path).split())
