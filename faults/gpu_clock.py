"""Lock a GPU's SM clock low, as a thermal or power problem would: NVML locked clocks.

One code path on a real GPU and on the included engine's virtual one. Locked clocks cannot be read
through NVML, so ``revert`` resets them, or puts ``prior_lock_mhz`` back if that is given.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.gpu.nvml import Device, open_nvml

_TOLERANCE_MHZ = 30
"""Two steps of the usual 15 MHz grid."""
_SETTLE_S = 0.5
"""How long a real GPU may take to show a new clock."""


class GpuClock(FaultAtom):
    """Hold the SM clock of GPU ``device_id`` at ``target_freq_mhz``."""

    kind: ClassVar[str] = "gpu.clock"
    aliases: ClassVar[tuple[str, ...]] = ("cuda_device",)

    acts_on: ClassVar[str] = (
        "the locked clocks of one GPU by NVML, for all who use it; with the included engine, of its virtual GPU"
    )
    requires: ClassVar[str] = (
        "nothing for the virtual GPU; else root and an NVIDIA GPU that can lock its clocks"
    )
    cannot: ClassVar[str] = (
        "A lock that was there before cannot be read: without `prior_lock_mhz` the revert removes it. A GPU may clock "
        "lower still for heat or power"
    )

    device_id: int = Field(0, ge=0)
    """Index as ``nvidia-smi -L`` shows it; the virtual GPU is 0."""
    target_freq_mhz: int = Field(ge=1, le=10_000)
    """Clamped by the GPU to its lowest clock that can be locked."""
    prior_lock_mhz: int | None = Field(None, ge=1, le=10_000)
    """The lock to put back afterwards, where the clock was locked before: NVML cannot tell."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({f"gpu:{self.device_id}:clock"})

    def check(self, host: Host) -> Capability:
        target = host.target
        if target.included and self.device_id != 0:
            return Capability.no(f"the virtual GPU is device 0, not {self.device_id}", "use device_id: 0")
        if target.included and host.planning:
            return Capability.yes("locked clock of the virtual GPU", simulated=True)
        if target.included and target.vgpu_state is None:
            return Capability.no("the engine shares no virtual GPU", "start it with --vgpu-state FILE")
        if target.vgpu_state is None and not host.is_root:
            return Capability.no("locking GPU clocks needs root", "run as root")
        try:
            with open_nvml(target.vgpu_state) as nvml:
                return self._check_range(nvml.device(self.device_id))
        except CapabilityError as e:
            return Capability.no(f"{e.thing}: {e.cause}", e.remedy)

    def _check_range(self, device: Device) -> Capability:
        highest = device.max_sm_clock_mhz()
        for field in ("target_freq_mhz", "prior_lock_mhz"):
            if (mhz := getattr(self, field)) is not None and mhz > highest:
                return Capability.no(f"{field} {mhz} is above this GPU's {highest} MHz", "give a lower clock")
        after = (
            "puts prior_lock_mhz back" if self.prior_lock_mhz else "resets it (a prior lock is not readable)"
        )
        return Capability.yes(
            f"locked clock of {device.label} ({device.name()}); revert {after}", simulated=device.simulated
        )

    async def plan(self, host: Host, name: str) -> Undo:
        path = host.target.vgpu_state
        expected_mhz = self.target_freq_mhz
        if not (host.planning and host.target.included):  # else there is no virtual GPU to ask yet
            expected_mhz = await asyncio.to_thread(self._expected_mhz, path)
        manual = f"nvidia-smi -i {self.device_id} -rgc"
        if path is not None:
            manual = f"{sys.executable} -m chaosflow.gpu {path} --reset-clock"
        return Undo(
            kind=self.kind,
            name=name,
            run_id=host.run_id,
            state={
                "vgpu_state": None if path is None else str(path),
                "device_id": self.device_id,
                "expected_mhz": expected_mhz,
                "asked_mhz": self.target_freq_mhz,
                "prior_lock_mhz": self.prior_lock_mhz,
            },
            manual=manual,
        )

    def _expected_mhz(self, path: Path | None) -> int:
        with open_nvml(path) as nvml:
            clocks = nvml.device(self.device_id).supported_sm_clocks_mhz()
        return min(clocks, key=lambda mhz: abs(mhz - self.target_freq_mhz), default=self.target_freq_mhz)

    async def inject(self, undo: Undo) -> None:
        await asyncio.to_thread(_lock, undo, self.target_freq_mhz)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        """Reads the clock back: NVML's success is not obedience (open-gpu-kernel-modules 1314).

        An idle real GPU clocks low whether locked or not, so there it is not confirmed.
        """
        deadline = asyncio.get_running_loop().time() + (_SETTLE_S if undo.state["vgpu_state"] is None else 0)
        while True:
            effect = await asyncio.to_thread(_look, undo)
            if effect or asyncio.get_running_loop().time() >= deadline:
                return effect
            await asyncio.sleep(0.05)

    @staticmethod
    async def revert(undo: Undo) -> None:
        path = undo.state["vgpu_state"]
        if path is not None and not Path(path).exists():
            return  # the virtual GPU is gone, and its lock with it
        await asyncio.to_thread(_lock, undo, undo.state["prior_lock_mhz"])


def _lock(undo: Undo, mhz: int | None) -> None:
    """Lock to one clock, or None = let go."""
    with open_nvml(_path(undo)) as nvml:
        device = nvml.device(undo.state["device_id"])
        if mhz is None:
            device.reset_sm_clock()
        else:
            device.lock_sm_clock(mhz, mhz)


def _look(undo: Undo) -> Effect:
    path, expected = _path(undo), int(undo.state["expected_mhz"])
    if path is not None and not path.exists():
        return Effect(False, "the virtual GPU is gone")
    with open_nvml(path) as nvml:
        device = nvml.device(undo.state["device_id"])
        clock, busy = device.sm_clock_mhz(), device.utilization_percent()
        locked = nvml.simulated and bool(device.clock_event_reasons() & 0x2)
    asked = undo.state.get("asked_mhz", expected)
    nearest = f", the nearest to {asked} that it has" if abs(asked - expected) > _TOLERANCE_MHZ else ""
    seen = f"{device.label} reads {clock} MHz at {busy} % load, {expected} wanted{nearest}"
    if not locked and busy == 0:
        return Effect(False, f"{seen}: idle, so a low clock proves nothing")
    at_target = abs(clock - expected) <= _TOLERANCE_MHZ
    return Effect(at_target and (locked or not nvml.simulated), seen)


def _path(undo: Undo) -> Path | None:
    path = undo.state["vgpu_state"]
    return None if path is None else Path(path)
