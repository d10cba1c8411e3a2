"""The undo journal: what must be put back, on disk before anything is changed.

One folder per run, machine-wide, so that any later ChaosFlow finds what a killed run left:
``/run/chaosflow/<run>`` for root, else ``$XDG_RUNTIME_DIR/chaosflow/<run>``, else
``/tmp/chaosflow-<uid>/<run>``; ``CHAOSFLOW_STATE_DIR`` overrides. The file is preallocated, so a disk that
fills up later cannot block an undo. Whoever writes or undoes holds its exclusive flock, on a
descriptor that no child inherits: a held lock means that its run is alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.core.fault import Undo

_PREALLOCATED_BYTES = 1 << 20
JOURNAL_FILE = "undo.jsonl"
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_SOCKET_PATH_BYTES = 107  # unix(7): sun_path without its closing zero
_LONGEST_SOCKET_NAME = "engine.sock"


def state_dir() -> Path:
    """Where all runs of this user on this machine keep their journals."""
    if override := os.environ.get("CHAOSFLOW_STATE_DIR"):
        return Path(override)
    if os.geteuid() == 0:
        return Path("/run/chaosflow")
    if (runtime := os.environ.get("XDG_RUNTIME_DIR")) and os.access(runtime, os.W_OK):
        return Path(runtime) / "chaosflow"
    return Path(f"/tmp/chaosflow-{os.geteuid()}")


def folder_of(run_id: str) -> Path:
    """Where that run's journal and sockets are, or will be."""
    return state_dir() / run_id


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to put back, and whether it has been."""

    number: int
    undo: Undo
    reverted: bool


class Journal:
    """An open journal whose lock this process holds. Every write is on disk when it returns."""

    def __init__(self, folder: Path, fd: int) -> None:
        self.folder, self._fd = folder, fd
        self._entries, self._end = _read(fd)

    @classmethod
    def create(cls, run_id: str) -> Self:
        """A new journal for a run, locked and preallocated."""
        folder = folder_of(run_id)
        if len(os.fsencode(folder / _LONGEST_SOCKET_NAME)) > _SOCKET_PATH_BYTES:
            raise UsageError(
                f"undo journal {folder}", "the path is too long for the sockets in it",
                "set CHAOSFLOW_STATE_DIR to a shorter folder",
            )  # fmt: skip
        fd = -1
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_own(folder.parent)
            folder.mkdir(mode=0o700)
            fd = os.open(folder / JOURNAL_FILE, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(fd, 0, _PREALLOCATED_BYTES)
        except OSError as e:
            if fd >= 0:
                os.close(fd)
                shutil.rmtree(folder, ignore_errors=True)
            raise UsageError(
                f"undo journal {folder}",
                f"cannot be made ({e.strerror})",
                "free some space there, or set CHAOSFLOW_STATE_DIR to a folder you can write",
            ) from e
        return cls(folder, fd)

    @classmethod
    def open_abandoned(cls, folder: Path) -> Self | None:
        """The journal of a run that is no longer alive, locked; None while its run holds the lock.

        Raises OSError, UsageError (somebody else's) or ChaosflowError (it cannot be read).
        """
        try:
            require_own(folder)
            fd = os.open(folder / JOURNAL_FILE, _OPEN)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(folder, fd)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise

    def plan(self, undo: Undo) -> int:
        """Write down what will be changed; returns the entry's number."""
        number = len(self._entries) + 1
        self._append({"plan": number, "undo": undo.model_dump()})
        self._entries.append(Entry(number, undo, False))
        return number

    def reverted(self, number: int) -> None:
        """Write down that an entry has been put back and verified."""
        self._append({"reverted": number})
        entry = self._entries[number - 1]
        self._entries[number - 1] = Entry(number, entry.undo, True)

    def pending(self) -> list[Entry]:
        """What is still to be put back, the newest first."""
        return [e for e in reversed(self._entries) if not e.reverted]

    def close(self, *, remove: bool) -> None:
        """Release the lock; with ``remove``, forget the run (nothing may be pending)."""
        if remove:
            if self.pending():
                raise RuntimeError("a journal with pending entries may not be removed")
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._fd)

    def _append(self, record: dict[str, object]) -> None:
        line = json.dumps(record).encode() + b"\n"
        os.pwrite(self._fd, line, self._end)  # into preallocated blocks
        os.fdatasync(self._fd)
        self._end += len(line)


def require_own(folder: Path) -> None:
    """Raise UsageError where somebody else could have written what an undo would carry out."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UsageError(
            f"folder of undo journals {folder}",
            "is not a folder that only you can write",
            "remove it, or set CHAOSFLOW_STATE_DIR to one of your own",
        )


def _read(fd: int) -> tuple[list[Entry], int]:
    try:
        return _parse(fd)
    except (ValueError, LookupError, TypeError) as e:
        raise ChaosflowError(
            "undo journal", f"holds what no ChaosFlow wrote ({type(e).__name__}: {e})"
        ) from e


def _parse(fd: int) -> tuple[list[Entry], int]:
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    text, end = data.split(b"\0", 1)[0], 0
    entries: list[Entry] = []
    for line in text.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # torn by a crash in mid-write: what it announces was not done yet
        record = json.loads(line)
        if "plan" in record:
            entries.append(Entry(record["plan"], Undo.model_validate(record["undo"]), False))
        else:
            number = record["reverted"]
            entries[number - 1] = Entry(number, entries[number - 1].undo, True)
        end += len(line)
    return entries, end


def journal_folders() -> Iterator[Path]:
    """All runs that left a journal, alive or not, oldest first."""
    top = state_dir()
    try:
        if not top.is_dir():
            return
        require_own(top)
        found = sorted(p for p in top.iterdir() if os.path.lexists(p / JOURNAL_FILE))
    except OSError as e:
        raise UsageError(
            f"folder of undo journals {top}", f"cannot be read ({e.strerror})", "make it your own"
        ) from e
    yield from found
