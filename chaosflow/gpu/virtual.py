"""The virtual GPU's NVML: an object put where nvidia-ml-py keeps the loaded C library.

The binding's own marshalling and error codes run as with a real driver: each method here takes the
ctypes arguments of the C function of its name (nvml.h) and returns an NVML error code. What is not
answered returns NVML_ERROR_NOT_SUPPORTED, as a real GPU does for what it lacks.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from typing import Any

from chaosflow.gpu.state import VirtualGpuState

_SUCCESS, _UNINITIALIZED, _INVALID, _NOT_SUPPORTED, _NOT_FOUND, _TOO_SMALL = 0, 1, 2, 3, 6, 7
_CLOCK_GRAPHICS, _CLOCK_SM, _CLOCK_MEM = 0, 1, 2
_CLOCK_ID_CURRENT, _CLOCK_ID_CUSTOMER_BOOST_MAX = 0, 3
_REASON_IDLE, _REASON_CLOCK_SETTING = 0x1, 0x2
_HANDLE = 0x5CF0
_RESERVED_BYTES = 600 << 20

Function = Callable[..., int]


def _set(reference: Any, value: int) -> int:
    """Store through a ``byref``; the binding reads it back from its own variable."""
    reference._obj.value = value
    return _SUCCESS


def _set_text(buffer: Any, size: Any, text: str) -> int:
    data = text.encode()
    if len(data) + 1 > size.value:
        return _TOO_SMALL
    buffer.value = data
    return _SUCCESS


class VirtualNvml:
    """One virtual GPU, as the NVML library would show it. It has device 0 and no other."""

    def __init__(self, state: VirtualGpuState) -> None:
        self._state = state
        self._users = 0

    def __getattr__(self, name: str) -> Function:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *_: _NOT_SUPPORTED if self._users else _UNINITIALIZED

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("nvmlDevice") or name.startswith("nvmlDeviceGetHandle"):
            return found

        def checked(handle: Any, *rest: Any) -> Any:
            if not self._users:
                return _UNINITIALIZED
            if name != "nvmlDeviceGetCount_v2" and ctypes.cast(handle, ctypes.c_void_p).value != _HANDLE:
                return _INVALID
            return found(handle, *rest)

        return checked

    @property
    def uuid(self) -> str:
        mark = zlib.crc32(str(self._state.path).encode())
        return f"GPU-cf000000-0000-4000-8000-0000{mark:08x}"

    # the library

    def nvmlInitWithFlags(self, _flags: Any) -> int:
        self._users += 1
        return _SUCCESS

    def nvmlInit_v2(self) -> int:
        return self.nvmlInitWithFlags(0)

    def nvmlShutdown(self) -> int:
        if not self._users:
            return _UNINITIALIZED
        self._users -= 1
        return _SUCCESS

    @property
    def nvmlErrorString(self) -> Callable[[Any], bytes]:
        # a fresh function: the binding sets .restype on it, which a bound method would refuse
        return lambda code: f"NVML error {getattr(code, 'value', code)}".encode()

    def nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> int:
        return _set_text(buffer, size, "chaosflow-virtual")

    def nvmlSystemGetNVMLVersion(self, buffer: Any, size: Any) -> int:
        return _set_text(buffer, size, "chaosflow-virtual")

    # finding the device

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        return _set(count, 1)

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        if not self._users:
            return _UNINITIALIZED
        if index.value != 0:
            return _INVALID
        ctypes.c_void_p.from_buffer(device._obj).value = _HANDLE
        return _SUCCESS

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, device: Any) -> int:
        if not self._users:
            return _UNINITIALIZED
        if (uuid.value or b"").decode() != self.uuid:
            return _NOT_FOUND
        ctypes.c_void_p.from_buffer(device._obj).value = _HANDLE
        return _SUCCESS

    def nvmlDeviceGetIndex(self, _device: Any, index: Any) -> int:
        return _set(index, 0)

    def nvmlDeviceGetName(self, _device: Any, buffer: Any, size: Any) -> int:
        return _set_text(buffer, size, f"Virtual {self._state.spec.name}")

    def nvmlDeviceGetUUID(self, _device: Any, buffer: Any, size: Any) -> int:
        return _set_text(buffer, size, self.uuid)

    # clocks

    def nvmlDeviceGetClockInfo(self, _device: Any, kind: Any, clock: Any) -> int:
        if kind.value == _CLOCK_MEM:
            return _set(clock, self._state.spec.memory_mhz)
        if kind.value in (_CLOCK_GRAPHICS, _CLOCK_SM):
            return _set(clock, self._state.clock_mhz(busy=self._state.busy))
        return _NOT_SUPPORTED

    def nvmlDeviceGetMaxClockInfo(self, _device: Any, kind: Any, clock: Any) -> int:
        if kind.value == _CLOCK_MEM:
            return _set(clock, self._state.spec.memory_mhz)
        if kind.value in (_CLOCK_GRAPHICS, _CLOCK_SM):
            return _set(clock, self._state.spec.boost_mhz)
        return _NOT_SUPPORTED

    def nvmlDeviceGetClock(self, device: Any, kind: Any, clock_id: Any, clock: Any) -> int:
        if clock_id.value == _CLOCK_ID_CURRENT:
            return self.nvmlDeviceGetClockInfo(device, kind, clock)
        if clock_id.value == _CLOCK_ID_CUSTOMER_BOOST_MAX:
            return self.nvmlDeviceGetMaxClockInfo(device, kind, clock)
        return _NOT_SUPPORTED

    def nvmlDeviceGetSupportedMemoryClocks(self, _device: Any, count: Any, clocks: Any) -> int:
        return _fill(count, clocks, [self._state.spec.memory_mhz])

    def nvmlDeviceGetSupportedGraphicsClocks(self, _device: Any, memory: Any, count: Any, clocks: Any) -> int:
        spec = self._state.spec
        if memory.value != spec.memory_mhz:
            return _NOT_FOUND
        return _fill(count, clocks, list(range(spec.boost_mhz, spec.min_mhz - 1, -spec.clock_step_mhz)))

    def nvmlDeviceSetGpuLockedClocks(self, _device: Any, low: Any, high: Any) -> int:
        if low.value > high.value:
            return _INVALID
        self._state.lock(low.value, high.value)
        return _SUCCESS

    def nvmlDeviceResetGpuLockedClocks(self, _device: Any) -> int:
        self._state.unlock()
        return _SUCCESS

    def nvmlDeviceGetCurrentClocksEventReasons(self, _device: Any, reasons: Any) -> int:
        idle = 0 if self._state.busy else _REASON_IDLE
        return _set(reasons, idle | (_REASON_CLOCK_SETTING if self._state.locked_mhz else 0))

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    def nvmlDeviceGetSupportedClocksEventReasons(self, _device: Any, reasons: Any) -> int:
        return _set(reasons, _REASON_IDLE | _REASON_CLOCK_SETTING)

    # power, load, memory, PCIe

    def nvmlDeviceGetPowerUsage(self, _device: Any, milliwatts: Any) -> int:
        return _set(milliwatts, self._state.telemetry().power_mw)

    def nvmlDeviceGetPowerManagementLimit(self, _device: Any, milliwatts: Any) -> int:
        return _set(milliwatts, self._state.spec.tdp_w * 1000)

    nvmlDeviceGetEnforcedPowerLimit = nvmlDeviceGetPowerManagementLimit
    nvmlDeviceGetPowerManagementDefaultLimit = nvmlDeviceGetPowerManagementLimit

    def nvmlDeviceGetPowerManagementLimitConstraints(self, _device: Any, low: Any, high: Any) -> int:
        _set(low, self._state.spec.min_limit_w * 1000)
        return _set(high, self._state.spec.tdp_w * 1000)

    def nvmlDeviceGetTotalEnergyConsumption(self, _device: Any, millijoules: Any) -> int:
        return _set(millijoules, self._state.telemetry().energy_mj)

    def nvmlDeviceGetTemperature(self, _device: Any, _sensor: Any, celsius: Any) -> int:
        # a straight line from 30 °C idle to 75 °C at the power limit: a stand-in, no thermal model
        spec, power_w = self._state.spec, self._state.telemetry().power_mw / 1000
        share = max(0.0, min(1.0, (power_w - spec.idle_w) / (spec.tdp_w - spec.idle_w)))
        return _set(celsius, round(30 + 45 * share))

    def nvmlDeviceGetUtilizationRates(self, _device: Any, rates: Any) -> int:
        telemetry = self._state.telemetry()
        rates._obj.gpu = telemetry.utilization_percent
        rates._obj.memory = telemetry.memory_utilization_percent
        return _SUCCESS

    def nvmlDeviceGetMemoryInfo(self, _device: Any, info: Any) -> int:
        total = self._state.spec.memory_bytes
        used = min(total, self._state.telemetry().memory_used_bytes + _RESERVED_BYTES)
        info._obj.total, info._obj.used, info._obj.free = total, used, total - used
        return _SUCCESS

    def nvmlDeviceGetMemoryInfo_v2(self, device: Any, info: Any) -> int:
        info._obj.reserved = _RESERVED_BYTES
        return self.nvmlDeviceGetMemoryInfo(device, info)

    def nvmlDeviceGetPcieThroughput(self, _device: Any, counter: Any, kb_per_s: Any) -> int:
        telemetry = self._state.telemetry()
        return _set(kb_per_s, telemetry.pcie_rx_kb_per_s if counter.value else telemetry.pcie_tx_kb_per_s)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _device: Any, generation: Any) -> int:
        return _set(generation, self._state.spec.pcie_gen)

    nvmlDeviceGetCurrPcieLinkGeneration = nvmlDeviceGetMaxPcieLinkGeneration

    def nvmlDeviceGetCurrPcieLinkWidth(self, _device: Any, lanes: Any) -> int:
        return _set(lanes, 16)


def _fill(count: Any, clocks: Any, values: list[int]) -> int:
    """NVML's list protocol: without an array, or with a short one, say how long it must be."""
    room = count._obj.value
    count._obj.value = len(values)
    if clocks is None or room < len(values):
        return _TOO_SMALL
    for i, value in enumerate(values):
        clocks[i] = value
    return _SUCCESS
