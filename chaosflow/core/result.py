"""What a run leaves: the content of ``result.json`` (docs/result-schema.md), which every report is made of.

Times named ``*_s`` count in seconds from the beginning of the baseline; the warm-up is negative.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Quantiles(Part):
    """Nearest-rank percentiles of successes, in ms; None without samples."""

    n: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


class SegmentVerdictResult(Part):
    """See chaosflow.core.slo.SegmentVerdict; limits and observations in s, or shares."""

    segment: str
    state: str
    sentence: str
    n: int = 0
    k_low: int = 0
    k_high: int = 0
    allowed_share: float = 0.0
    design_effect: float = 1.0
    limit: float | None = None
    observed: float | None = None
    low: float | None = None
    high: float | None = None
    needs_more: int | None = None


class ObjectiveResult(Part):
    text: str
    metric: str
    kind: str
    state: str
    sentence: str
    segments: list[SegmentVerdictResult] = []


class SegmentResult(Part):
    name: str
    kind: str
    """``warmup``, ``baseline``, ``fault`` or ``recovery``."""
    fault: str = ""
    begin_s: float
    end_s: float
    scheduled: int = 0
    fired: int = 0
    resolved: int = 0
    failed: int = 0
    complete: int = 0
    outcomes: dict[str, int] = {}
    tokens: int = 0
    tokens_per_s: float = 0.0
    requests_per_s: float = 0.0
    ttft: Quantiles = Quantiles()
    gap: Quantiles = Quantiles()
    e2e: Quantiles = Quantiles()
    client_lag_p99_ms: float | None = None
    interval_share: float = 0.0
    """Share of content events whose arrival is known only as an interval."""


class RecoveryResult(Part):
    """From the acknowledged revert (or the injection, where nothing can be reverted)."""

    measured: bool
    seconds: float | None = None
    """None with ``measured``: censored, not reached within ``watched_s``."""
    watched_s: float = 0.0
    sentence: str = ""
    requests_lost: int = 0
    time_to_detect_s: float | None = None
    """From the acknowledged injection to the end of the first failing bucket."""
    bucket_s: float = 1.0


class FaultResult(Part):
    name: str
    kind: str
    params: dict[str, Any] = {}
    rung: str = ""
    simulated: bool = False
    reversible: bool = True
    planned_inject_s: float
    planned_revert_s: float | None = None
    inject_begin_s: float | None = None
    inject_ack_s: float | None = None
    revert_begin_s: float | None = None
    revert_ack_s: float | None = None
    confirmed: bool = False
    evidence: str = ""
    reverted: bool = False
    revert_evidence: str = ""
    manual_undo: str = ""
    error: str = ""
    recovery: RecoveryResult | None = None


class Series(Part):
    """Columns of one row per second; None where there was no sample. Quantiles slide over ``window_s``."""

    window_s: float = 10.0
    t_s: list[float] = []
    ttft_p50_ms: list[float | None] = []
    ttft_p95_ms: list[float | None] = []
    ttft_p99_ms: list[float | None] = []
    gap_p50_ms: list[float | None] = []
    gap_p95_ms: list[float | None] = []
    gap_p99_ms: list[float | None] = []
    e2e_p50_ms: list[float | None] = []
    e2e_p95_ms: list[float | None] = []
    e2e_p99_ms: list[float | None] = []
    tokens_per_s: list[float] = []
    requests_per_s: list[float] = []
    errors_per_s: list[float] = []
    in_flight: list[float] = []


class ProbeSeries(Part):
    t_s: list[float] = []
    value: list[float] = []


class ClientHealth(Part):
    """Whether the load generator itself kept up; a report without it is worth nothing."""

    workers: int = 0
    client_lag_p99_ms: float | None = None
    interval_share: float = 0.0
    user_stamps: int = 0
    clock_jumps: int = 0
    cap_hits: int = 0
    lost_batches: list[str] = []
    rss_bytes_max: int = 0
    sentence: str = ""


class Event(Part):
    """One line of the run's log."""

    at_s: float
    what: str
    text: str


class RunResult(Part):
    schema_version: int = SCHEMA_VERSION
    run_id: str
    name: str
    description: str = ""
    state: str
    exit_code: int
    reason: str
    """Why this state, in one sentence."""
    aborted: str = ""
    started_utc: str
    ended_utc: str
    baseline_utc: str = ""
    """Wall time of t = 0."""
    wall_s: float
    timeline_s: float
    """The scenario's own length; ``wall_s`` minus this is ChaosFlow's overhead."""
    seed: int
    command: list[str] = []
    version: str = ""
    scenario: dict[str, Any] = {}
    """Resolved; secrets redacted."""
    environment: dict[str, str] = {}
    simulated: list[str] = []
    """What was simulated, in words; empty = everything was real."""
    objectives: list[ObjectiveResult] = []
    segments: list[SegmentResult] = []
    faults: list[FaultResult] = []
    series: Series = Series()
    probes: dict[str, ProbeSeries] = {}
    client: ClientHealth = ClientHealth()
    events: list[Event] = []
    notes: list[str] = []
    """Warnings a reader must know."""
    artifacts: dict[str, str] = {}
    """Name -> path below the run's folder."""
    totals: dict[str, float] = Field(default_factory=dict)
