"""One moment of the metrics, immutable: the event loop makes them, the thread that is scraped reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaosflow.core.slots import Count

BOUNDS_S: dict[str, tuple[float, ...]] = {
    "ttft": (
        0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
        1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0,
    ),
    "gap": (
        0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
        1.0, 2.0, 5.0, 10.0, 30.0,
    ),
    "e2e": (
        0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0,
        60.0, 120.0, 300.0, 600.0,
    ),
    "client_lag": (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
}  # fmt: skip
"""Upper bounds of the histograms' buckets. Fixed: a bound that moves breaks every rate over it."""

PHASES = ("starting", "warmup", "baseline", "fault", "recovery", "between", "ended")
RUN_STATES = ("running", "pass", "fail", "inconclusive", "invalid", "error")
OBJECTIVE_STATES = ("pending", "pass", "fail", "inconclusive", "invalid", "error")
"""``pending``: no sample yet, or nothing that can be told before the end."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram with fixed bounds: counts per bucket (the last one beyond every bound), and the sum in s."""

    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class ObjectiveGauge:
    """One objective of the run in progress; counts of this run, in the segments it is judged in."""

    state: str = "pending"
    allowed_share: float | None = None
    """None where the objective is no share of samples (drift, recovery)."""
    samples: int = 0
    exceedances: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters are of the whole process, over all its runs; gauges are of the run in progress, or the last."""

    scenario: str = ""
    phase: str = ""
    """One of PHASES; empty before the first run."""
    run_state: str = ""
    runs: Mapping[str, int] = field(default_factory=dict)
    """State -> runs that ended in it."""
    at_s: float = 0.0
    left_s: float = 0.0
    active: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """(fault, kind) -> whether it acts now, for each fault of the scenario."""
    injections: Mapping[tuple[str, str], int] = field(default_factory=dict)
    not_undone: int = 0
    count: Count = field(default_factory=Count)
    histograms: Mapping[str, Buckets] = field(default_factory=dict)
    window: Mapping[str, tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    """metric -> (p50, p95, p99) in ms over the last 10 s."""
    in_flight: int = 0
    objectives: Mapping[str, ObjectiveGauge] = field(default_factory=dict)
    totals: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Objective -> (samples, exceedances) over all runs that had it."""
    workers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Worker -> its gauges, see CellBatch.health."""
