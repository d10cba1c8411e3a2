"""The virtual GPU through nvidia-ml-py's own marshalling, and what NVML's refusals turn into."""

from __future__ import annotations

import ctypes.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from chaosflow.core.errors import CapabilityError
from chaosflow.gpu.__main__ import main
from chaosflow.gpu.nvml import Device, explain, open_nvml
from chaosflow.gpu.specs import GPUS
from chaosflow.gpu.state import VirtualGpuState

H200 = GPUS["h200"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    VirtualGpuState.create(tmp_path / "gpu", H200).close()
    return tmp_path / "gpu"


@pytest.fixture
def device(path: Path) -> Iterator[Device]:
    with open_nvml(path) as nvml:
        yield nvml.device(0)


def test_every_answer_passes_through_the_real_binding(device: Device) -> None:
    handle = pynvml.nvmlDeviceGetHandleByUUID(device.uuid().encode())
    assert pynvml.nvmlDeviceGetIndex(handle) == 0
    assert device.name() == "Virtual NVIDIA H200"
    assert device.simulated
    assert device.memory_clock_mhz() == 3201
    assert device.max_sm_clock_mhz() == device.supported_sm_clocks_mhz()[0] == 1980
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == 139 << 30
    assert pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2).total == 139 << 30
    assert pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) == [200_000, 700_000]
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 700_000
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == pynvml.nvmlClocksEventReasonGpuIdle
    assert pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES) == 0
    assert pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == 30
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 0
    assert pynvml.nvmlSystemGetDriverVersion() == "chaosflow-virtual"
    clock = pynvml.nvmlDeviceGetClock(handle, pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_ID_CURRENT)
    assert clock == device.sm_clock_mhz() == 345


def test_what_is_not_modelled_is_not_supported(device: Device) -> None:
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetFanSpeed(handle)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceSetPowerManagementLimit(handle, 300_000)  # it would have no effect


def test_lock_and_reset(device: Device, path: Path) -> None:
    device.lock_sm_clock(300, 300)
    assert device.sm_clock_mhz() == 300
    assert device.clock_event_reasons() & 0x2
    device.lock_sm_clock(1, 1)
    assert device.sm_clock_mhz() == H200.min_mhz
    with pytest.raises(CapabilityError, match="refused an argument"):
        device.lock_sm_clock(400, 300)
    device.reset_sm_clock()
    device.reset_sm_clock()
    assert device.sm_clock_mhz() == 345


def test_a_device_that_is_not_there(path: Path) -> None:
    with open_nvml(path) as nvml, pytest.raises(CapabilityError, match=r"GPU 3: no such device \(1 found\)"):
        nvml.device(3)


def test_the_real_library_is_back_afterwards(path: Path) -> None:
    before = pynvml.nvmlLib
    with open_nvml(path):
        assert pynvml.nvmlLib is not before
    assert pynvml.nvmlLib is before
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


@pytest.mark.parametrize("name", ["torch", "vllm"])
def test_refused_beside_torch_and_vllm(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    with pytest.raises(CapabilityError, match=f"has imported {name}"), open_nvml(path):
        pass


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "does not support"),
        (pynvml.NVML_ERROR_NOT_FOUND, "no such device"),
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVML library"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver is not loaded"),
        (pynvml.NVML_ERROR_TIMEOUT, "NVML says"),
    ],
)
def test_each_refusal_has_its_own_message(code: int, words: str) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(code)

    with pytest.raises(CapabilityError, match=words):
        explain(pynvml, "GPU 0", refuse)


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="a real NVML is here")
def test_without_a_driver_the_cause_is_named() -> None:
    with pytest.raises(CapabilityError, match="install the NVIDIA driver"), open_nvml():
        pass


def test_the_manual_undo_resets_the_lock(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with VirtualGpuState.open(path) as state:
        state.lock(300, 300)
        assert main([str(path), "--reset-clock"]) == 0
        assert state.locked_mhz is None
    assert "Virtual NVIDIA H200: SM 345 MHz" in capsys.readouterr().out
    assert main([str(path) + "x"]) == 2
