"""``host.memory_bandwidth``: helpers that stream through memory, so that less bandwidth is left."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field

from chaosflow.core.fault import Capability, Effect, Undo
from chaosflow.core.host import Host
from chaosflow.faults._stress.atom import FRESH_S, StressFault, program
from chaosflow.linux import room
from chaosflow.linux.room import MIB
from chaosflow.linux.stressor import Worker

_LEAST_GB_PER_S = 0.2
"""Of each helper; even a core shared by ten gets more."""


class HostMemoryBandwidth(StressFault):
    """A noisy neighbour on the memory bus: the copy kernel of STREAM, over and over.

    Each helper also wants one CPU: pin the target elsewhere (``host.cpuset``) to see bandwidth alone.
    """

    kind: ClassVar[str] = "host.memory_bandwidth"
    acts_on: ClassVar[str] = "memory bandwidth and last-level cache, by helper processes; GB/s are measured"
    requires: ClassVar[str] = "memory for three arrays of each helper"
    cannot: ClassVar[str] = (
        "Three arrays must be larger than the last-level cache, or it is the cache that is streamed through. One "
        "helper does not saturate a machine of many memory channels"
    )

    workers: int = Field(ge=1, le=1024)
    """Helpers, each on one CPU."""
    array_mib: int = Field(64, ge=1, le=16_384)
    """Of each of a helper's three arrays."""

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"host:memory-bandwidth"})

    def check(self, host: Host) -> Capability:
        wanted, now = 3 * self.array_mib * self.workers * MIB, room.memory()
        if wanted > now.spare:
            return Capability.no(
                f"{wanted // MIB} MiB of arrays would leave less than the floor of {now.floor // MIB} MiB",
                "ask for fewer workers or smaller arrays",
            )
        return Capability.yes(f"{self.workers} helper processes, STREAM's copy kernel")

    def commands(self, host: Host) -> list[list[str]]:
        return [program("stream_memory", self.array_mib * MIB)] * self.workers

    @staticmethod
    def judge(wanted: dict[str, Any], workers: list[Worker]) -> Effect:
        moving = [w for w in workers if time.monotonic() - w.report["at_s"] < FRESH_S]
        rates = [w.report["moved_bytes"] / w.report["seconds"] / 1e9 for w in moving]
        text = f"{sum(rates):.2f} GB/s by {len(moving)} of {len(workers)} helpers"
        return Effect(len(moving) == len(workers) and min(rates) >= _LEAST_GB_PER_S, text)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return HostMemoryBandwidth.look(undo)
