"""What is seen while a run goes on: one frame a second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from chaosflow.core.slo import State
from chaosflow.core.slots import CellStore, Count
from chaosflow.orchestrator.series import METRICS, SLIDING_S


@dataclass(frozen=True, slots=True)
class ActiveFault:
    name: str
    kind: str
    text: str
    """Its evidence, once verified."""
    left_s: float | None


@dataclass(frozen=True, slots=True)
class ObjectiveNow:
    """An objective in the segment in progress; ``state`` None = no samples yet."""

    text: str
    state: State | None
    note: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The state of a run at one moment; quantiles slide over the last 10 s, in ms."""

    phase: str
    at_s: float
    phase_left_s: float | None
    run_left_s: float
    faults: tuple[ActiveFault, ...] = ()
    quantiles: dict[str, tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    tokens_per_s: float = 0.0
    requests_per_s: float = 0.0
    errors_per_s: float = 0.0
    in_flight: int = 0
    objectives: tuple[ObjectiveNow, ...] = ()
    history: tuple[float, ...] = ()
    """Tokens per second of the last minute, for a sparkline."""


class View(Protocol):
    """Who shows a run to a person. Called from the event loop: must not block."""

    def frame(self, frame: Frame) -> None: ...

    def event(self, at_s: float, what: str, text: str) -> None: ...


def sliding(store: CellStore, second: int) -> dict[str, tuple[float | None, float | None, float | None]]:
    """metric -> (p50, p95, p99) in ms over the 10 s that end with ``second``."""
    seconds = range(second - SLIDING_S + 1, second + 1)
    found: dict[str, tuple[float | None, float | None, float | None]] = {}
    for metric in METRICS:
        histogram = store.window(metric, seconds)
        p50, p95, p99 = (_ms(histogram.quantile_ns(q)) for q in (0.5, 0.95, 0.99))
        found[metric] = (p50, p95, p99)
    return found


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else round(value_ns / 1e6, 3)


def per_second(store: CellStore, seconds: Iterable[int]) -> Count:
    """Counts of those seconds over all segments, summed."""
    total = Count()
    for second in seconds:
        if (count := store.counts.get((second, "*"))) is not None:
            total.add(count)
    return total
