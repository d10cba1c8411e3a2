"""The shared state of the virtual GPU."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.errors import CapabilityError
from chaosflow.gpu.specs import GPUS
from chaosflow.gpu.state import Telemetry, VirtualGpuState

H200 = GPUS["h200"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[VirtualGpuState]:
    with VirtualGpuState.create(tmp_path / "gpu", H200) as made:
        yield made


def test_a_lock_by_another_mapping_is_seen_at_once(state: VirtualGpuState) -> None:
    assert state.path is not None
    with VirtualGpuState.open(state.path) as other:
        other.lock(300, 300)
    assert state.locked_mhz == (300, 300)
    assert state.clock_mhz(busy=True) == state.clock_mhz(busy=False) == 300
    state.unlock()
    assert state.clock_mhz(busy=True) == 1980


def test_a_restarted_engine_finds_the_lock_still_there(state: VirtualGpuState) -> None:
    assert state.path is not None
    state.lock(210, 705)
    with VirtualGpuState.create(state.path, H200) as again:
        assert again.clock_mhz(busy=True) == 705
        assert again.clock_mhz(busy=False) == 345


def test_another_gpus_state_is_not_taken_over(state: VirtualGpuState) -> None:
    assert state.path is not None
    with pytest.raises(CapabilityError, match="is a h200, not a l4"):
        VirtualGpuState.create(state.path, GPUS["l4"])


@pytest.mark.parametrize("content", [b"", b"x" * 256, b"cfvgpu1\n"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gpu").write_bytes(content)
    with pytest.raises(CapabilityError, match="not a virtual GPU's state"):
        VirtualGpuState.open(tmp_path / "gpu")


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="--vgpu-state"):
        VirtualGpuState.open(tmp_path / "none")


def test_stale_telemetry_reads_as_idle(state: VirtualGpuState) -> None:
    busy = Telemetry(utilization_percent=80, power_mw=300_000, energy_mj=5)
    state.report(busy, time.monotonic_ns())
    assert state.busy
    assert state.telemetry().power_mw == 300_000
    state.report(busy, time.monotonic_ns() - 2_000_000_000)  # the engine was killed two seconds ago
    assert state.telemetry().utilization_percent == 0
    assert state.telemetry().power_mw == H200.idle_w * 1000
    assert state.telemetry().energy_mj >= 5 + 2 * H200.idle_w * 1000


def test_reading_the_clock_is_cheap_enough_for_every_step(state: VirtualGpuState) -> None:
    seconds = min(timeit.repeat(lambda: state.clock_mhz(busy=True), number=1000, repeat=5)) / 1000
    assert seconds < 20e-6


@pytest.mark.slow
def test_a_writer_killed_at_any_instant_leaves_a_whole_lock(state: VirtualGpuState) -> None:
    """A kill -9 in mid-write must leave either lock, never a mixture, and nothing held."""
    code = (
        "import sys; from pathlib import Path; from chaosflow.gpu.state import VirtualGpuState\n"
        "s = VirtualGpuState.open(Path(sys.argv[1])); print('go', flush=True)\n"
        "while True: s.lock(300, 300); s.lock(1980, 1980)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(state.path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"go\n"
        seen = {state.locked_mhz for _ in range(50_000)}
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert seen <= {None, (300, 300), (1980, 1980)}
    state.lock(450, 450)
    assert state.locked_mhz == (450, 450)
