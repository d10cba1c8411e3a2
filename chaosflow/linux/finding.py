"""The ways to name a target's processes: pid, pid file, name, cgroup, container, listening port. All of them read only.

What they find are the roots of process trees; CapabilityError where there is nothing, or too much.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import ProcessRef
from chaosflow.linux import procs

if TYPE_CHECKING:  # helper processes look for targets too, and must be at work in no time
    from chaosflow.core.scenario import ProcessSpec


def by_pid(pid: int) -> tuple[ProcessRef, ...]:
    """The process that has this pid now."""
    ref = ProcessRef.of(pid)
    if ref is None or not ref.alive():
        raise CapabilityError(f"process: pid {pid}", "no such process", "start the target first")
    return (ref,)


def by_pid_file(path: str) -> tuple[ProcessRef, ...]:
    """The process whose pid is the first word of a file; refused if it started after the file was written."""
    try:
        with Path(path).open("rb") as file:
            pid = int(file.read(64).split()[0])  # whatever the path names, it is not read to its end
    except OSError as e:
        raise CapabilityError(
            f"process: pid_file {path}", f"cannot be read ({e.strerror})", "start the target first"
        ) from e
    except (ValueError, IndexError) as e:
        raise CapabilityError(
            f"process: pid_file {path}", "holds no pid", "name the file that the target writes"
        ) from e
    refs = by_pid(pid)
    if _started_at_s(refs[0]) > Path(path).stat().st_mtime + 2:
        raise CapabilityError(
            f"process: pid_file {path}",
            f"is stale: process {pid} ({procs.command(pid)}) started after the file was written",
            "remove the file and restart the target",
        )
    return refs


def _started_at_s(ref: ProcessRef) -> float:
    """Start of a process in seconds of the wall clock (proc_stat(5) btime is whole seconds)."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime"):
            return int(line.split()[1]) + ref.start_ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


def by_name(name: str) -> tuple[ProcessRef, ...]:
    """The root of the one tree of processes whose program is called so; from then on held by its start time.

    Refused when there are several: which one was meant cannot be known. Never finds ourselves or what started us.
    """
    ours = procs.ourselves()
    refs = procs.roots_of({pid for pid in procs.pids() if pid not in ours and name in _names_of(pid)})
    thing = f"process: name {name}"
    if len(refs) > 1:
        each = ", ".join(f"{ref.pid} (started {_local_time(ref)})" for ref in refs[:8])
        raise CapabilityError(thing, f"{len(refs)} processes are called so: {each}", "name one by its pid")
    return _or_none(refs, thing, "no process is called so", "see ps -e -o pid,lstart,comm")


def _names_of(pid: int) -> set[str]:
    """The command name (15 characters at most, proc_pid_comm(5)) and the file name it was started by."""
    file = procs.read(Path(f"/proc/{pid}/cmdline")).partition("\0")[0]
    return {procs.command(pid), os.path.basename(file)} - {""}


def _local_time(ref: ProcessRef) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_started_at_s(ref)))


def by_cgroup(folder: str) -> tuple[ProcessRef, ...]:
    """The roots among all processes in a cgroup folder and the ones below it."""
    top = Path(folder)
    if not top.is_absolute():
        top = next((p for p in _below_mounts(folder) if p.is_dir()), Path("/sys/fs/cgroup") / folder)
    if not (top / "cgroup.procs").exists():
        raise CapabilityError(
            f"process: cgroup {folder}", f"{top} is no cgroup folder", "see /proc/<pid>/cgroup"
        )
    found = {int(word) for file in top.rglob("cgroup.procs") for word in procs.read(file).split()}
    return _or_none(procs.roots_of(found), f"process: cgroup {folder}", "no process is in it")


def _below_mounts(folder: str) -> Iterator[Path]:
    base = Path("/sys/fs/cgroup")
    yield base / folder
    if base.is_dir():
        yield from (controller / folder for controller in sorted(base.iterdir()) if controller.is_dir())


_RUNTIME_SCOPE = re.compile(r"^(?:docker|libpod|crio|cri-containerd|nerdctl)-([0-9a-f]{12,})\.scope$")
SHORT_ID = 12
"""Hex digits of a container id as the runtimes print it; fewer could be anybody's."""


def by_container(name: str) -> tuple[ProcessRef, ...]:
    """The roots among the processes of the one container with this id (12 digits or more) or name.

    A whole part of their cgroup path must be it (``web-1``, ``web-1.scope``, ``docker-<id>.scope``): a
    name that another contains must not stop the other. CapabilityError when none or several match.
    """
    found: dict[str, list[int]] = {}
    for pid in procs.pids():
        for line in procs.read(Path(f"/proc/{pid}/cgroup")).splitlines():
            for part in line.split(":", 2)[-1].split("/"):
                if _names_container(part, name):
                    found.setdefault(part, []).append(pid)
    thing = f"process: container {name}"
    if len(found) > 1:
        raise CapabilityError(thing, f"several match: {', '.join(sorted(found))}", "give the whole id")
    return _or_none(
        procs.roots_of({pid for members in found.values() for pid in members}),
        thing,
        "no process has it as a part of its cgroup path",
        "give the container's id (docker inspect -f '{{.Id}}' NAME)",
    )


def _names_container(part: str, name: str) -> bool:
    if part in (name, f"{name}.scope", f"{name}.service"):
        return bool(name)
    scope = _RUNTIME_SCOPE.match(part)
    identity = scope[1] if scope else part if re.fullmatch(r"[0-9a-f]{32,}", part) else ""
    return len(name) >= SHORT_ID and identity.startswith(name)


def by_listen_port(port: int) -> tuple[ProcessRef, ...]:
    """The roots among the processes that listen on a TCP port: in this network namespace, else in another."""
    thing = f"process: listen_port {port}"
    for table in _socket_tables():
        inodes = _listening_inodes(table, port)
        holders = {pid for pid in procs.pids() if inodes and _holds(pid, inodes)}
        found = holders - {1}  # pid 1: socket activation
        if refs := procs.roots_of(found):
            return refs
        if inodes:
            raise CapabilityError(
                thing, "somebody listens there, but whose it is cannot be seen", "run as root"
            )
    return _or_none((), thing, "nobody listens there", "start the target first, or correct the port")


def find(spec: ProcessSpec) -> tuple[tuple[ProcessRef, ...], str]:
    """The roots of a target's process trees and how they were found: ``(refs, "listen_port 8000")``.

    CapabilityError when there is none. Changes nothing.
    """
    for name in _FINDERS:
        if (value := getattr(spec, name)) is not None:
            return find_by(name, value), f"{name} {value}"
    raise AssertionError("ProcessSpec holds exactly one selector")


def find_by(selector: str, value: str | int) -> tuple[ProcessRef, ...]:
    """As ``find``, by the name and the value of one field of ProcessSpec."""
    return _FINDERS[selector](value)


_FINDERS: dict[str, Callable[..., tuple[ProcessRef, ...]]] = {
    "listen_port": by_listen_port,
    "pid_file": by_pid_file,
    "pid": by_pid,
    "name": by_name,
    "container": by_container,
    "cgroup": by_cgroup,
}


def _or_none(
    refs: tuple[ProcessRef, ...], thing: str, cause: str, remedy: str = "start the target first"
) -> tuple[ProcessRef, ...]:
    if not refs:
        raise CapabilityError(thing, cause, remedy)
    return refs


def _socket_tables() -> Iterator[Path]:
    """/proc/<pid>/net of one process of each network namespace, our own first."""
    seen = {_namespace("self")}
    yield Path("/proc/self/net")
    for pid in procs.pids():
        if (namespace := _namespace(pid)) and namespace not in seen:
            seen.add(namespace)
            yield Path(f"/proc/{pid}/net")


def _namespace(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _listening_inodes(table: Path, port: int) -> set[str]:
    """Inodes of the sockets in state LISTEN (0A) on a local port (proc_net_tcp in the kernel's docs)."""
    inodes = set()
    for family in ("tcp", "tcp6"):
        for line in procs.read(table / family).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(fields[9])
    return inodes


def _holds(pid: int, inodes: set[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}") in wanted:
                return True
        except OSError:
            continue
    return False
