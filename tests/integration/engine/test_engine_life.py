"""Signals, real time, and the virtual GPU under a running engine."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest
from engine_process import RunningEngine, events, running_engine

from chaosflow.core.clock import SystemClock
from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.engine.infer.models import MODELS
from chaosflow.engine.infer.roofline import Demand, Roofline
from chaosflow.faults.gpu_clock import GpuClock
from chaosflow.gpu.specs import GPUS
from chaosflow.gpu.state import VirtualGpuState
from chaosflow.probes.engine import EngineProbe


def gaps_ms(engine: RunningEngine, tokens: int) -> list[float]:
    """Times between the tokens of one stream, as they come in."""
    connection = engine.connect(stream=True, max_tokens=tokens)
    answer = connection.getresponse()
    stamps = []
    while line := answer.readline():
        if b'"content":" ' in line:
            stamps.append(time.monotonic())
    connection.close()
    return [1000 * (b - a) for a, b in pairwise(stamps)]


def undisturbed_ms(engine: RunningEngine, tokens: int) -> float:
    """The least of four median gaps: other work on this machine can only make them longer."""
    return min(statistics.median(gaps_ms(engine, tokens)) for _ in range(4))


def modelled_ms(mhz: int) -> float:
    demand = Demand(1, 1, 1, 50, 50)
    return 1000 * Roofline(GPUS["h200"], MODELS["llama-3.1-8b"]).cost(demand, mhz).total_s


def handle(engine: RunningEngine, state: Path, control: Path | None = None) -> Host:
    ref = ProcessRef.of(engine.process.pid)
    assert ref is not None
    return Host("run", TargetHandle(True, engine.url + "/v1", engine.model, (ref,), {}, state, control))


@pytest.mark.slow
def test_sigterm_lets_running_streams_end_and_refuses_new_ones() -> None:
    with running_engine() as engine:
        connection = engine.connect(stream=True, max_tokens=100)
        answer = connection.getresponse()
        engine.signal(signal.SIGTERM)
        got = events(answer.read().decode())
        connection.close()
        assert got[-1] == "[DONE]"
        assert sum(bool(e["choices"][0]["delta"].get("content")) for e in got[:-1]) == 100
        assert engine.process.wait(10) == 0


@pytest.mark.slow
def test_sigint_stops_at_once() -> None:
    with running_engine() as engine:
        connection = engine.connect(stream=True, max_tokens=20_000)
        connection.getresponse().read(500)
        began = time.monotonic()
        engine.signal(signal.SIGINT)
        assert engine.process.wait(10) == 130
        assert time.monotonic() - began < 2
        connection.close()


@pytest.mark.slow
def test_token_times_follow_the_model() -> None:
    with running_engine() as engine:
        gaps_ms(engine, 16)
        best = undisturbed_ms(engine, 64)
    assert modelled_ms(1980) * 0.85 < best < modelled_ms(1980) * 1.5  # quiet: within 2 %


@pytest.mark.slow
def test_a_stopped_process_does_not_make_up_for_lost_time() -> None:
    """A stall of the host must not turn into a burst of tokens: the GPU was idle meanwhile."""
    with running_engine() as engine:
        connection = engine.connect(max_tokens=150)
        time.sleep(0.2)
        engine.signal(signal.SIGSTOP)
        time.sleep(0.5)
        engine.signal(signal.SIGCONT)
        began = time.monotonic()
        body = json.loads(connection.getresponse().read())
        left_s = time.monotonic() - began
        connection.close()
    assert body["usage"]["completion_tokens"] == 150
    assert left_s > 0.8 * (150 * modelled_ms(1980) / 1000 - 0.2)


@pytest.mark.slow
def test_a_locked_clock_slows_tokens_by_the_roofline_and_reset_brings_them_back(tmp_path: Path) -> None:
    """geopm 1629, open-gpu-kernel-modules 1314: the effect is read back, and undone."""
    state = tmp_path / "gpu"
    atom = GpuClock(target_freq_mhz=300)

    async def round_trip(engine: RunningEngine) -> tuple[float, float, float]:
        host = handle(engine, state)
        capability = atom.check(host)
        assert capability.ok
        assert capability.simulated
        undo = await atom.plan(host, "throttle")
        assert not await GpuClock.is_active(undo)
        before = await asyncio.to_thread(undisturbed_ms, engine, 24)
        await atom.inject(undo)
        effect = await GpuClock.is_active(undo)
        assert effect, effect.evidence
        during = await asyncio.to_thread(undisturbed_ms, engine, 24)
        again = type(undo).model_validate_json(undo.model_dump_json())
        await GpuClock.revert(again)
        await GpuClock.revert(again)
        assert not await GpuClock.is_active(again)
        after = await asyncio.to_thread(undisturbed_ms, engine, 24)
        return before, during, after

    with running_engine("--vgpu-state", str(state)) as engine:
        before, during, after = asyncio.run(round_trip(engine))
    # other work on the machine only lengthens gaps, and short ones by a larger share
    assert modelled_ms(300) * 0.95 < during < modelled_ms(300) * 1.3
    assert max(before, after) < 0.6 * during
    assert min(before, after) > modelled_ms(1980) * 0.85


@pytest.mark.slow
def test_the_lock_outlives_a_killed_engine(tmp_path: Path) -> None:
    """As on a real GPU; litmus-go 591: the revert must not depend on the target being there."""
    state = tmp_path / "gpu"
    with running_engine("--vgpu-state", str(state)) as engine:
        host = handle(engine, state)
        undo = asyncio.run(GpuClock(target_freq_mhz=300).plan(host, "x"))
        asyncio.run(GpuClock(target_freq_mhz=300).inject(undo))
        engine.process.kill()
        engine.process.wait()
    with running_engine("--vgpu-state", str(state)) as engine:
        assert engine.metric("vgpu_sm_clock_mhz") == 300
        asyncio.run(GpuClock.revert(undo))
        assert engine.metric("vgpu_sm_clock_mhz") == 345
    state.unlink()
    asyncio.run(GpuClock.revert(undo))  # nothing left to undo


@pytest.mark.slow
def test_the_engine_probe_reads_over_the_control_socket_and_stops_when_cancelled(tmp_path: Path) -> None:
    state, control = tmp_path / "gpu", tmp_path / "control"
    arguments = ("--vgpu-state", str(state), "--control-socket", str(control))

    async def collect(host: Host, seen: dict[str, float]) -> None:
        async for reading in EngineProbe(host).readings(SystemClock()):
            seen[reading.series] = reading.value

    async def go(engine: RunningEngine) -> dict[str, float]:
        seen: dict[str, float] = {}
        task = asyncio.create_task(collect(handle(engine, state, control), seen))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(engine.post, max_tokens=20)
        await asyncio.sleep(1.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    with running_engine(*arguments) as engine:
        assert EngineProbe.check(handle(engine, state, control)).ok
        seen = asyncio.run(go(engine))
    assert seen["engine.generated_tokens"] == 20
    assert seen["engine.generated_tokens_per_s"] > 0
    assert seen["engine.sm_clock_mhz"] in (345, 1980)
    parts = {s for s in seen if s.startswith("engine.step_")}
    assert parts == {
        f"engine.step_{part}_ms" for part in ("embedding", "attention", "projection", "io", "scheduling")
    }


@pytest.mark.slow
def test_the_probe_says_why_it_cannot_read_a_users_server() -> None:
    target = TargetHandle(False, "http://127.0.0.1:9/v1")
    capability = EngineProbe.check(Host("run", target))
    assert not capability.ok
    assert "http://127.0.0.1:9/metrics cannot be read (" in capability.reason
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        reason = EngineProbe.check(Host("run", TargetHandle(False, f"http://127.0.0.1:{port}/v1"))).reason
    assert reason == f"http://127.0.0.1:{port}/metrics cannot be read (no answer within 1 s)"


def test_gpu_clock_before_the_engine_runs_and_where_it_cannot_work(tmp_path: Path) -> None:
    included = TargetHandle(True, "http://127.0.0.1:1/v1")
    assert GpuClock(target_freq_mhz=300).check(Host("r", included, planning=True)).simulated
    assert not GpuClock(target_freq_mhz=300, device_id=1).check(Host("r", included, planning=True)).ok
    assert not GpuClock(target_freq_mhz=300).check(Host("r", included)).ok
    VirtualGpuState.create(tmp_path / "gpu", GPUS["h200"]).close()
    with_gpu = Host("r", TargetHandle(True, "http://127.0.0.1:1/v1", vgpu_state=tmp_path / "gpu"))
    assert "above this GPU's 1980 MHz" in GpuClock(target_freq_mhz=5000).check(with_gpu).reason
    undo = asyncio.run(GpuClock(target_freq_mhz=300, prior_lock_mhz=900).plan(with_gpu, "x"))
    asyncio.run(GpuClock.revert(undo))
    with VirtualGpuState.open(tmp_path / "gpu") as state:
        assert state.locked_mhz == (900, 900)
