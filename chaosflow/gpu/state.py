"""The state of one virtual GPU: a small file that the engine and the injector both map.

Every field is one aligned 8-byte word, stored and loaded as a whole, with one kind of writer: the
control words by whoever calls NVML, the telemetry by the engine. So there is no lock to be left held
by a killed process, and a read takes well under a microsecond. The file outlives both sides, as a
locked clock outlives the process that locked it.
"""

from __future__ import annotations

import mmap
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chaosflow.core.errors import CapabilityError
from chaosflow.gpu.specs import GpuSpec, gpu_named

_MAGIC = b"cfvgpu1\n"
_KEY_BYTES = 32
_WORDS = 32
_SIZE = _WORDS * 8
_FRESH_NS = 1_000_000_000

# word numbers; 0 is the magic, 1..4 the GPU's key
_LOCK = 5
_UPDATED_NS = 6
_UTILIZATION = 7
_MEMORY_UTILIZATION = 8
_MEMORY_USED = 9
_POWER_MW = 10
_ENERGY_MJ = 11
_PCIE_TX_KB_S = 12
_PCIE_RX_KB_S = 13
_STEPS = 14


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the engine reports after a step."""

    utilization_percent: int = 0
    memory_utilization_percent: int = 0
    memory_used_bytes: int = 0
    power_mw: int = 0
    energy_mj: int = 0
    """Since the state was made; never falls."""
    pcie_tx_kb_per_s: int = 0
    pcie_rx_kb_per_s: int = 0


class VirtualGpuState:
    """One mapped state. Open it with ``create``, ``open`` or ``anonymous``; close it when done."""

    def __init__(self, memory: mmap.mmap, spec: GpuSpec, path: Path | None) -> None:
        self.spec, self.path = spec, path
        self._memory = memory
        self._words = memoryview(memory).cast("Q")

    @classmethod
    def anonymous(cls, spec: GpuSpec) -> Self:
        """A state that no other process can see."""
        memory = mmap.mmap(-1, _SIZE)
        memory[:] = _blank(spec)
        return cls(memory, spec, None)

    @classmethod
    def create(cls, path: Path, spec: GpuSpec) -> Self:
        """Open the state at ``path``, making it first if there is none.

        An existing one is kept with its lock, as a restarted process finds a locked GPU still locked.
        Raises CapabilityError when the file is no state, or is another GPU's.
        """
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            draft.write_bytes(_blank(spec))
            with suppress(FileExistsError):
                os.link(draft, path)  # whole or not at all, and never over an existing one
        except OSError as e:
            raise CapabilityError(f"virtual GPU {path}", f"cannot be made ({e.strerror})", "") from e
        finally:
            draft.unlink(missing_ok=True)
        state = cls.open(path)
        if state.spec.key != spec.key:
            found = state.spec.key
            state.close()
            raise CapabilityError(
                f"virtual GPU {path}", f"is a {found}, not a {spec.key}", "remove the file or name another"
            )
        return state

    @classmethod
    def open(cls, path: Path) -> Self:
        """The state that some process made; CapabilityError when there is none or it is damaged."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as e:
            raise CapabilityError(
                f"virtual GPU {path}",
                f"cannot be opened ({e.strerror})",
                "start the engine with --vgpu-state first",
            ) from e
        try:
            if os.fstat(fd).st_size != _SIZE or os.pread(fd, 8, 0) != _MAGIC:
                raise CapabilityError(f"virtual GPU {path}", "is not a virtual GPU's state", "remove it")
            memory = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        spec = gpu_named(memory[8 : 8 + _KEY_BYTES].rstrip(b"\0").decode())
        return cls(memory, spec, path)

    def close(self) -> None:
        """Unmap; the file stays."""
        self._words.release()
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def locked_mhz(self) -> tuple[int, int] | None:
        """(lowest, highest) allowed SM clock as locked, or None."""
        word = self._words[_LOCK]
        return (word >> 32, word & 0xFFFF_FFFF) if word else None

    def lock(self, low_mhz: int, high_mhz: int) -> None:
        """Lock the SM clock to a range, clamped to what the GPU supports."""
        self._words[_LOCK] = self.spec.clamp_mhz(low_mhz) << 32 | self.spec.clamp_mhz(high_mhz)

    def unlock(self) -> None:
        self._words[_LOCK] = 0

    def clock_mhz(self, *, busy: bool) -> int:
        """The SM clock now: boost when busy, low when idle, held within the lock."""
        natural = self.spec.boost_mhz if busy else self.spec.idle_mhz
        word = self._words[_LOCK]
        return max(word >> 32, min(natural, word & 0xFFFF_FFFF)) if word else natural

    @property
    def busy(self) -> bool:
        """Whether the engine ran a step within the last second; a dead engine's GPU is idle."""
        age_ns = time.monotonic_ns() - self._words[_UPDATED_NS]
        return 0 <= age_ns < _FRESH_NS and self._words[_UTILIZATION] > 0

    @property
    def steps(self) -> int:
        """Engine steps run on this GPU."""
        return self._words[_STEPS]

    def report(self, telemetry: Telemetry, now_ns: int) -> None:
        """Write one step's telemetry (the engine only)."""
        words = self._words
        words[_UTILIZATION] = telemetry.utilization_percent
        words[_MEMORY_UTILIZATION] = telemetry.memory_utilization_percent
        words[_MEMORY_USED] = telemetry.memory_used_bytes
        words[_POWER_MW] = telemetry.power_mw
        words[_ENERGY_MJ] = telemetry.energy_mj
        words[_PCIE_TX_KB_S] = telemetry.pcie_tx_kb_per_s
        words[_PCIE_RX_KB_S] = telemetry.pcie_rx_kb_per_s
        words[_STEPS] += 1
        words[_UPDATED_NS] = now_ns

    def telemetry(self) -> Telemetry:
        """The state as NVML shows it: idle figures where the engine does not run."""
        words, idle_mw = self._words, self.spec.idle_w * 1000
        since_s = max(0.0, (time.monotonic_ns() - words[_UPDATED_NS]) / 1e9) if words[_UPDATED_NS] else 0.0
        energy_mj = words[_ENERGY_MJ] + int(idle_mw * since_s)
        if not self.busy:
            return Telemetry(memory_used_bytes=words[_MEMORY_USED], power_mw=idle_mw, energy_mj=energy_mj)
        return Telemetry(
            words[_UTILIZATION],
            words[_MEMORY_UTILIZATION],
            words[_MEMORY_USED],
            words[_POWER_MW],
            energy_mj,
            words[_PCIE_TX_KB_S],
            words[_PCIE_RX_KB_S],
        )


def _blank(spec: GpuSpec) -> bytes:
    key = spec.key.encode().ljust(_KEY_BYTES, b"\0")
    return (_MAGIC + key).ljust(_SIZE, b"\0")
