"""Runs the probes of a scenario beside the run; a probe that fails is a note, not an end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaosflow.core.clock import Clock
from chaosflow.core.host import Host
from chaosflow.core.probe import Probe, Reading

MAX_READINGS = 100_000
"""Per series: 27 hours at one a second; beyond that every second reading is dropped."""


class ProbeWatch:
    """Collects the readings of all probes, by series."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.readings: dict[str, list[Reading]] = {}
        self.notes: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, probes: Sequence[type[Probe]], host: Host) -> None:
        self._tasks = [asyncio.create_task(self._follow(probe(host))) for probe in probes]

    async def _follow(self, probe: Probe) -> None:
        try:
            async for reading in probe.readings(self._clock):
                series = self.readings.setdefault(reading.series, [])
                series.append(reading)
                if len(series) > MAX_READINGS:
                    del series[::2]
        except Exception as e:
            self.notes.append(f"probe {probe.name} stopped: {type(e).__name__}: {e}")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
