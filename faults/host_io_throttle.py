"""``host.io_throttle``: limit the block I/O of the cgroup that the target lives in."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults._target import NEEDS_CGROUP, check_cgroup, require_cgroup, target_cgroup
from chaosflow.linux import cgroup, limits, room
from chaosflow.linux.room import MIB

_FIELDS = {
    "rbps": "read_mib_per_s",
    "wbps": "write_mib_per_s",
    "riops": "read_ops_per_s",
    "wiops": "write_ops_per_s",
}


class HostIoThrottle(FaultAtom):
    """A slow disk for the target alone: model loading, logs and caches wait, others do not."""

    kind: ClassVar[str] = "host.io_throttle"
    acts_on: ClassVar[str] = (
        "the cgroup that the target lives in and the disk that holds `path`: v1 `blkio.throttle.*`, v2 `io.max`"
    )
    requires: ClassVar[str] = NEEDS_CGROUP
    cannot: ClassVar[str] = (
        "On cgroup v1 buffered writes are not slowed, only direct I/O and reads that miss the page cache. Works on "
        "whole disks, not on tmpfs, overlay or network file systems"
    )
    undone_by: ClassVar[str] = "echo the prior value > blkio.throttle.* (v1) or io.max (v2) of the cgroup"

    path: str = "/"
    """A file or folder on the disk that is meant."""
    read_mib_per_s: float | None = Field(None, gt=0, le=1 << 20)
    write_mib_per_s: float | None = Field(None, gt=0, le=1 << 20)
    read_ops_per_s: int | None = Field(None, ge=1, le=1 << 30)
    write_ops_per_s: int | None = Field(None, ge=1, le=1 << 30)

    @model_validator(mode="after")
    def _any(self) -> Self:
        if not self._wanted():
            raise ValueError(f"give at least one of {', '.join(_FIELDS.values())}")
        return self

    def _wanted(self) -> dict[str, int]:
        given = {key: getattr(self, name) for key, name in _FIELDS.items()}
        return {k: int(v * MIB) if k.endswith("bps") else v for k, v in given.items() if v is not None}

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"cgroup:io:{target_cgroup(host, 'blkio') or 'target'}"})

    def check(self, host: Host) -> Capability:
        version = cgroup.layout().version("blkio")
        rung = "cgroup v1 blkio.throttle" if version == 1 else "cgroup v2 io.max"
        capability = check_cgroup(host, "blkio", _file, rung)
        if not capability.ok:
            return capability
        try:
            disk = room.disk_of(Path(self.path))
        except OSError as e:
            return Capability.no(f"{self.path}: {e.strerror}", "name a folder on the disk that is meant")
        if disk is None:
            return Capability.no(f"{self.path} is on no disk of this machine", "name a folder on a disk")
        return Capability.yes(f"{rung} on disk {disk}")

    async def plan(self, host: Host, name: str) -> Undo:
        folder = require_cgroup(host, "blkio", f"{self.kind} {name}")
        disk = room.disk_of(Path(self.path))
        prior = limits.read_io_limits(folder, disk) if disk else None
        if disk is None or prior is None:
            raise CapabilityError(f"{self.kind} {name}", f"no I/O limit for {self.path} in {folder}")
        wanted = self._wanted()
        prior = {key: prior[key] for key in wanted}
        state = {
            "folder": str(folder),
            "disk": disk,
            "wanted": wanted,
            "prior": prior,
            "done": limits.io_done_bytes(folder, disk),
        }
        return Undo(
            kind=self.kind, name=name, run_id=host.run_id, state=state, manual=_manual(folder, disk, prior)
        )

    async def inject(self, undo: Undo) -> None:
        folder = Path(undo.state["folder"])
        try:
            limits.set_io_limits(folder, undo.state["disk"], undo.state["wanted"])
        except OSError as e:
            raise CapabilityError(
                f"{undo.kind} on {folder}", f"disk {undo.state['disk']}: {e.strerror}", "run as root"
            ) from e

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        folder, disk, wanted = Path(undo.state["folder"]), undo.state["disk"], undo.state["wanted"]
        now = limits.read_io_limits(folder, disk)
        if now is None:
            return Effect(False, f"{folder} is gone")
        done, before = limits.io_done_bytes(folder, disk), undo.state["done"]
        moved = ", ".join(f"{(n - before.get(way, 0)) / MIB:.3g} MiB {way}" for way, n in done.items())
        limit = ", ".join(f"{key} {now[key]}" for key in wanted)
        text = f"{limit} on disk {disk} in {folder.name}; {moved or '0 MiB moved'}"
        return Effect(all(now[key] == value for key, value in wanted.items()), text)

    @staticmethod
    async def revert(undo: Undo) -> None:
        folder, disk, prior = Path(undo.state["folder"]), undo.state["disk"], undo.state["prior"]
        now = limits.read_io_limits(folder, disk)
        if now is None or all(now[key] == value for key, value in prior.items()):
            return  # gone with the target, or put back already
        limits.set_io_limits(folder, disk, prior)


def _file(folder: Path) -> Path:
    v2 = folder / "io.max"
    return v2 if v2.exists() else folder / "blkio.throttle.read_bps_device"


def _manual(folder: Path, disk: str, prior: dict[str, int]) -> str:
    if _file(folder).name == "io.max":
        values = " ".join(f"{key}={'max' if value < 0 else value}" for key, value in prior.items())
        return f"echo '{disk} {values}' > {folder}/io.max"
    return "; ".join(
        f"echo '{disk} {max(0, value)}' > {folder}/{limits.V1_IO[key]}" for key, value in prior.items()
    )
