"""What a run will act on, written down beside its journal, so that two live runs never act on one thing.

Only what does not compose is claimed, and only outside the run's own: the included engine, its GPU and the
proxy are private to each run.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import Host
from chaosflow.core.journal import JOURNAL_FILE, journal_folders

_FILE = "claims.json"


def claims_of(atoms: Mapping[str, FaultAtom], host: Host) -> dict[str, str]:
    """Resource -> name of the fault that acts on it. Reads only."""
    if host.target.included:
        return {}
    who = ",".join(str(ref.pid) for ref in host.target.processes)
    found = {}
    for name, atom in atoms.items():
        if atom.composes or atom.needs_proxy:
            continue
        for resource in atom.resource(host):
            found[f"{resource} of process {who}" if resource.startswith("target:") else resource] = name
    return found


def claim(folder: Path, claims: Mapping[str, str]) -> None:
    """Write this run's claims into its journal folder; refuse where a live run came first.

    Written before it is compared: of two runs that start at once, at least one sees the other.
    Raises CapabilityError naming resource, fault and the other run.
    """
    if not claims:
        return
    (folder / _FILE).write_text(json.dumps(dict(claims)))
    for other in journal_folders():
        if other == folder or not _alive(other):
            continue
        shared = set(claims) & set(_read(other))
        if shared and _older(other, folder):
            resource = min(shared)
            raise CapabilityError(
                f"fault {claims[resource]}",
                f"run {other.name} is acting on {resource}",
                "wait until it has ended",
            )


def release(folder: Path) -> None:
    """Claim nothing any more."""
    (folder / _FILE).unlink(missing_ok=True)


def _older(one: Path, two: Path) -> bool:
    return (one / _FILE).stat().st_mtime_ns < (two / _FILE).stat().st_mtime_ns


def _read(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((folder / _FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _alive(folder: Path) -> bool:
    """Whether its journal is locked; takes the lock for an instant to find out."""
    try:
        fd = os.open(folder / JOURNAL_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
