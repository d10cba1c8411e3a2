"""Processes of this host through /proc: trees, who started them, and signals that cannot miss.

A process is always a ``ProcessRef`` (pid, start time, boot), and a signal goes through a pidfd whose
identity was checked after it was opened: a reused pid is never hit. Nothing here waits for, or reaps,
anybody's children.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import RUN_VARIABLE, ProcessRef

_EXEC_LOOKS = 20


def pids() -> Iterator[int]:
    """All pids there are now, in no order."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def parents() -> dict[int, int]:
    """pid -> parent's pid of all processes, from one pass over /proc."""
    found: dict[int, int] = {}
    for pid in pids():
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue  # ended meanwhile
        found[pid] = int(text[text.rindex(")") + 2 :].split()[1])
    return found


def tree(roots: Iterable[ProcessRef]) -> list[ProcessRef]:
    """The living roots and all their descendants now, roots first; a child whose parent died is not seen."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    todo = [root.pid for root in roots if root.alive()]
    found: dict[int, ProcessRef] = {}
    while todo:
        pid = todo.pop(0)
        ref = ProcessRef.of(pid)
        if pid not in found and ref is not None and ref.alive():
            found[pid] = ref
        todo += (child for child in children.get(pid, ()) if child not in found)
    return list(found.values())


def send(ref: ProcessRef, signum: int) -> bool:
    """Signal exactly this process. False when it is gone; CapabilityError when it is not ours to signal."""
    try:
        fd = os.pidfd_open(ref.pid)
    except ProcessLookupError:
        return False
    try:
        if not ref.alive():  # asked while the pidfd pins the pid: from here on it cannot be reused
            return False
        signal.pidfd_send_signal(fd, signum)
    except ProcessLookupError:
        return False
    except PermissionError as e:
        raise CapabilityError(
            f"process {ref.pid} ({command(ref.pid)})",
            f"may not be signalled by uid {os.geteuid()}",
            "run ChaosFlow as the same user, or as root",
        ) from e
    finally:
        os.close(fd)
    return True


def command(pid: int) -> str:
    """Short command name for messages; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def describe(refs: Iterable[ProcessRef]) -> str:
    """``llama-server (812), worker (815)``, for messages."""
    return ", ".join(f"{command(ref.pid) or 'gone'} ({ref.pid})" for ref in refs)


def roots_of(found: Iterable[int]) -> tuple[ProcessRef, ...]:
    """Those of the given pids that have no ancestor among them."""
    wanted, parent = set(found), parents()

    def has_ancestor(pid: int) -> bool:
        seen: set[int] = set()
        while (pid := parent.get(pid, 0)) > 0 and pid not in seen:
            if pid in wanted:
                return True
            seen.add(pid)
        return False

    refs = (ProcessRef.of(pid) for pid in sorted(wanted) if not has_ancestor(pid))
    return tuple(ref for ref in refs if ref is not None and ref.alive())


def by_env_marker(run_id: str) -> list[ProcessRef]:
    """All living processes whose environment says that this run started them, ourselves left out."""
    return by_environment(f"{RUN_VARIABLE}={run_id}")


def by_environment(entry: str) -> list[ProcessRef]:
    """All living processes that were started with ``NAME=value`` in their environment, ourselves left out."""
    marker = entry.encode()
    found: list[ProcessRef] = []
    unread = [pid for pid in pids() if pid != os.getpid()]
    for _ in range(_EXEC_LOOKS):
        texts = {pid: _environment(pid) for pid in unread}
        refs = (ProcessRef.of(pid) for pid, text in texts.items() if text and marker in text.split(b"\0"))
        found += [ref for ref in refs if ref is not None and ref.alive()]
        unread = [pid for pid, text in texts.items() if text == b"" and _is_user_process(pid)]
        if not unread:
            break
        time.sleep(0.001)  # in the middle of execve(2) a process has no environment to read
    return found


def _environment(pid: int) -> bytes | None:
    """None when there is no such process, or it is not ours to look at."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None


def _is_user_process(pid: int) -> bool:
    """Neither gone, nor a zombie, nor a kernel thread (PF_KTHREAD, field 9 of /proc/<pid>/stat)."""
    text = read(Path(f"/proc/{pid}/stat"))
    fields = text[text.rfind(")") + 2 :].split()
    return len(fields) > 6 and fields[0] not in ("Z", "X") and not int(fields[6]) & 0x0020_0000


def ourselves() -> set[int]:
    """Our own pid and those of all our ancestors: a target's tree must hold none of them."""
    parent, found, pid = parents(), {os.getpid()}, os.getpid()
    while (pid := parent.get(pid, 0)) > 0 and pid not in found:
        found.add(pid)
    return found


def read(path: Path) -> str:
    """A file of /proc; empty when it is gone, or not ours to look at."""
    try:
        return path.read_text()
    except OSError:
        return ""


def may_signal(ref: ProcessRef) -> bool:
    """Whether a signal of ours would be let through; sends none."""
    try:
        os.kill(ref.pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass  # gone: nothing that could be refused
    return True
