"""Runs the probes of a scenario beside the run; a probe that fails is a note, not an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from chaosflow.core.clock import Clock
from chaosflow.core.host import Host
from chaosflow.core.probe import Probe, Reading

MAX_READINGS = 7_200
"""Per series: two hours at one a second; beyond that the least and the largest of every four are kept."""


class ProbeWatch:
    """Collects the readings of all probes, by series."""

    def __init__(self, clock: Clock, on_reading: Callable[[Reading], None] | None = None) -> None:
        """``on_reading`` is given every reading as it comes."""
        self._clock, self._on_reading = clock, on_reading
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
                    series[:] = thinned(series)
                if self._on_reading is not None:
                    self._on_reading(reading)
        except Exception as e:
            self.notes.append(f"probe {probe.name} stopped: {type(e).__name__}: {e}")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def thinned(series: Sequence[Reading]) -> list[Reading]:
    """Of every four readings the least and the largest, in their order: no peak is lost."""
    kept: list[Reading] = []
    for i in range(0, len(series), 4):
        part = series[i : i + 4]
        pair = {min(part, key=lambda r: r.value), max(part, key=lambda r: r.value)}
        kept += sorted(pair, key=lambda r: r.at_ns)
    return kept
