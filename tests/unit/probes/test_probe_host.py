"""The host probe on this very process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from chaosflow.core.clock import SystemClock
from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.probes.host import HostProbe


@pytest.mark.slow
def test_reads_host_and_process_tree_and_stops_when_cancelled(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("nr_periods 9\nnr_throttled 4\nthrottled_time 7000000\n")
    ref = ProcessRef.of(os.getpid())
    assert ref is not None
    target = TargetHandle(False, "http://127.0.0.1:1/v1", processes=(ref,), cgroups={"cpu": str(tmp_path)})
    host = Host("r", target)
    assert HostProbe.check(host).ok

    async def go() -> dict[str, float]:
        seen: dict[str, float] = {}

        async def collect() -> None:
            async for reading in HostProbe(host).readings(SystemClock()):
                seen[reading.series] = reading.value

        task = asyncio.create_task(collect())
        await asyncio.sleep(0.1)
        (tmp_path / "cpu.stat").write_text("nr_periods 12\nnr_throttled 6\nthrottled_time 57000000\n")
        await asyncio.sleep(1.4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        return seen

    seen = asyncio.run(go())
    assert seen["host.target_rss_bytes"] > 1 << 20
    assert seen["host.target_processes"] >= 1
    assert seen["host.target_throttled_periods"] == 2
    assert seen["host.target_throttled_ms"] == 50
    assert {"host.cpu_percent", "host.load_1min", "host.memory_available_bytes"} <= set(seen)
