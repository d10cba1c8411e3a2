"""The one seam to NVML, through nvidia-ml-py: a real GPU, or the virtual one put in its place.

nvidia-ml-py keeps one loaded library per process, so only one of them is open at a time; others wait.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from chaosflow.core.errors import CapabilityError
from chaosflow.gpu.state import VirtualGpuState
from chaosflow.gpu.virtual import VirtualNvml

T = TypeVar("T")
_one_library = threading.RLock()
REFUSED_BESIDE = ("torch", "vllm")


class Device:
    """One GPU. Every method raises CapabilityError that says what NVML refused, and what helps."""

    def __init__(self, binding: Any, handle: Any, index: int, *, simulated: bool) -> None:
        self._nvml, self._handle = binding, handle
        self.index, self.simulated = index, simulated

    @property
    def label(self) -> str:
        return f"{'virtual ' if self.simulated else ''}GPU {self.index}"

    def _call(self, function: str, *arguments: object) -> Any:
        return explain(
            self._nvml, self.label, lambda: getattr(self._nvml, function)(self._handle, *arguments)
        )

    def name(self) -> str:
        return _text(self._call("nvmlDeviceGetName"))

    def uuid(self) -> str:
        return _text(self._call("nvmlDeviceGetUUID"))

    def sm_clock_mhz(self) -> int:
        """The SM clock right now; low on an idle GPU, locked or not."""
        return int(self._call("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM))

    def memory_clock_mhz(self) -> int:
        return int(self._call("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM))

    def max_sm_clock_mhz(self) -> int:
        return int(self._call("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM))

    def supported_sm_clocks_mhz(self) -> list[int]:
        """Clocks that can be locked, highest first; [] where the driver does not list them."""
        with suppress(CapabilityError):
            memory = self._call("nvmlDeviceGetSupportedMemoryClocks")
            if memory:
                clocks = self._call("nvmlDeviceGetSupportedGraphicsClocks", max(memory))
                return sorted((int(c) for c in clocks), reverse=True)
        return []

    def lock_sm_clock(self, low_mhz: int, high_mhz: int) -> None:
        """nvmlDeviceSetGpuLockedClocks. Success is not obedience: read the clock back under load."""
        self._call("nvmlDeviceSetGpuLockedClocks", low_mhz, high_mhz)

    def reset_sm_clock(self) -> None:
        """nvmlDeviceResetGpuLockedClocks: back to the driver's own choice; harmless when not locked."""
        self._call("nvmlDeviceResetGpuLockedClocks")

    def utilization_percent(self) -> int:
        return int(self._call("nvmlDeviceGetUtilizationRates").gpu)

    def power_w(self) -> float:
        return float(self._call("nvmlDeviceGetPowerUsage")) / 1000

    def clock_event_reasons(self) -> int:
        """Bits of nvmlClocksEventReason*: why the clock is what it is."""
        return int(self._call("nvmlDeviceGetCurrentClocksEventReasons"))


class Nvml:
    """An open NVML. Valid inside ``open_nvml`` only."""

    def __init__(self, binding: Any, *, simulated: bool) -> None:
        self._nvml, self.simulated = binding, simulated

    def count(self) -> int:
        return int(explain(self._nvml, "NVML", self._nvml.nvmlDeviceGetCount))

    def device(self, index: int) -> Device:
        """The GPU of that index; CapabilityError says how many there are when it does not exist."""
        count = self.count()
        if not 0 <= index < count:
            raise CapabilityError(
                f"GPU {index}", f"no such device ({count} found)", "give a device_id that nvidia-smi -L lists"
            )
        handle = explain(self._nvml, f"GPU {index}", lambda: self._nvml.nvmlDeviceGetHandleByIndex(index))
        return Device(self._nvml, handle, index, simulated=self.simulated)


@contextmanager
def open_nvml(state: Path | None = None) -> Iterator[Nvml]:
    """NVML of this machine, or with ``state`` of the virtual GPU whose state file that is.

    Raises CapabilityError when there is no library, driver, device or permission; and, for the
    virtual GPU, in a process that has imported torch or vllm, which must only ever see real ones.
    """
    binding = _binding()
    with _one_library:
        if state is None:
            with _initialised(binding):
                yield Nvml(binding, simulated=False)
            return
        with VirtualGpuState.open(state) as gpu, virtual_library(binding, gpu), _initialised(binding):
            yield Nvml(binding, simulated=True)


@contextmanager
def virtual_library(binding: Any, gpu: VirtualGpuState) -> Iterator[None]:
    """Put the virtual GPU where ``binding`` (pynvml) keeps the loaded library, and take it out again."""
    if loaded := [name for name in REFUSED_BESIDE if name in sys.modules]:
        raise CapabilityError(
            "virtual GPU", f"refused in a process that has imported {loaded[0]}", "run it in another process"
        )
    real, pointers = binding.nvmlLib, dict(binding._nvmlGetFunctionPointer_cache)
    binding._nvmlGetFunctionPointer_cache.clear()  # resolved pointers would go on calling the real library
    binding.nvmlLib = VirtualNvml(gpu)
    try:
        yield
    finally:
        binding.nvmlLib = real
        binding._nvmlGetFunctionPointer_cache.clear()
        binding._nvmlGetFunctionPointer_cache.update(pointers)


@contextmanager
def _initialised(binding: Any) -> Iterator[None]:
    explain(binding, "NVML", binding.nvmlInit)
    try:
        yield
    finally:
        with suppress(binding.NVMLError):
            binding.nvmlShutdown()


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as e:
        raise CapabilityError("NVML", "nvidia-ml-py is not installed", "pip install nvidia-ml-py") from e
    return pynvml


def explain(binding: Any, thing: str, call: Callable[[], T]) -> T:
    """Run a binding call; turn NVMLError into a CapabilityError with cause and remedy."""
    try:
        return call()
    except binding.NVMLError as e:
        cause, remedy = _MEANING.get(e.value, (f"NVML says {e}", ""))
        raise CapabilityError(thing, cause, remedy) from e


_MEANING: dict[int, tuple[str, str]] = {
    2: (
        "NVML refused an argument",
        "check device_id and the clock against nvidia-smi -q -d SUPPORTED_CLOCKS",
    ),
    3: ("this GPU or driver does not support it", "data-centre GPUs do; consumer and MIG devices may not"),
    4: ("no permission", "run as root (locking clocks needs it)"),
    6: ("no such device", "nvidia-smi -L lists what there is"),
    9: ("the NVIDIA driver is not loaded", "modprobe nvidia, or use the included engine's virtual GPU"),
    12: ("no NVML library here (libnvidia-ml.so.1)", "install the NVIDIA driver, or use the included engine"),
    13: ("this driver is too old for the call", "update the NVIDIA driver"),
    15: ("the GPU has fallen off the bus", "reset it or reboot"),
}
"""NVML error code -> cause, remedy (nvml.h, nvmlReturn_t)."""


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
