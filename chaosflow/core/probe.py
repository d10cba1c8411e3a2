"""A probe watches one thing and never acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar

from chaosflow.core.clock import Clock
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one series at one monotonic instant."""

    at_ns: int
    series: str
    """``engine.running_requests``, ``host.cpu_percent`` …; the unit is the last word of the name."""
    value: float


class Probe(ABC):
    """One source of readings, found by scanning ``chaosflow.probes`` and its entry-point group."""

    name: ClassVar[str]

    def __init__(self, host: Host) -> None:
        self.host = host

    @classmethod
    @abstractmethod
    def check(cls, host: Host) -> Capability:
        """Whether the probe can work here. Reads only."""

    @abstractmethod
    def readings(self, clock: Clock) -> AsyncIterator[Reading]:
        """Readings until cancelled, about one per second and series."""
