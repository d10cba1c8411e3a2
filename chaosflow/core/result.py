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


class AlarmResult(Part):
    """A stretch in which a window was over its limit; drawn, never judged. See chaosflow.core.budget."""

    begin_s: float
    """The moment at which one would have been told."""
    end_s: float
    peak: float
    n: int


class BurnRateResult(Part):
    """One pair of windows of the multi-window burn-rate rule (Site Reliability Workbook, chapter 5)."""

    factor: float
    long_s: float
    short_s: float
    budget_part: float
    """Share of the budget gone when the long window has burned at ``factor``."""
    peak: float
    """Highest burn rate of the long window; 1 = just the whole budget by the end of the run."""
    peak_at_s: float | None = None
    alarms: list[AlarmResult] = []


class BudgetResult(Part):
    """The error budget of one objective over all segments it is judged in."""

    allowed_share: float
    n: int
    bad: int
    spent: float | None
    """Share of the budget that was used; above 1 = overspent; None without samples or without a budget."""
    period_s: float
    burn: list[BurnRateResult] = []


class SlidingResult(Part):
    """What a rule over the last ``window_s`` would have said at each second."""

    window_s: float
    alarms: list[AlarmResult] = []


class ObjectiveResult(Part):
    text: str
    metric: str
    kind: str
    state: str
    sentence: str
    segments: list[SegmentVerdictResult] = []
    budget: BudgetResult | None = None
    sliding: SlidingResult | None = None


class SegmentResult(Part):
    name: str
    kind: str
    """``warmup``, ``baseline``, ``fault``, ``recovery``, or ``edge``: a fault's injection (``X.inject``) or revert
    (``X.revert``) until it was acknowledged, not judged, and only where a request fell into it."""
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


class RecoveryCurve(Part):
    """What clients saw around one revert, by buckets; moments count from the revert, before it is negative."""

    bucket_s: float = 1.0
    t_s: list[float] = []
    """Begin of each bucket."""
    tokens_per_s: list[float] = []
    ttft_p50_ms: list[float | None] = []
    gap_p50_ms: list[float | None] = []
    normal_tokens_per_s: float | None = None
    """The least that a bucket of the baseline had."""
    normal_ttft_p50_ms: float | None = None
    """The most that a bucket of the baseline had."""
    normal_gap_p50_ms: float | None = None


class RecoveryResult(Part):
    """From the acknowledged revert (or the injection, where nothing can be reverted)."""

    measured: bool
    seconds: float | None = None
    """None with ``measured``: censored, not reached within ``watched_s``."""
    watched_s: float = 0.0
    sentence: str = ""
    requests_lost: int = 0
    time_to_detect_s: float | None = None
    """From the acknowledged injection to the end of the first of two failing buckets in a row."""
    bucket_s: float = 1.0
    good_for_s: float = 0.0
    """How long it was good up to the end of the watch, too short to count: recovery may have begun then."""
    tokens_lost: int | None = None
    """What the baseline's rate would have brought from the injection to the recovery, minus what came."""
    curve: RecoveryCurve | None = None
    """None where nothing was measured, or where a run of very many faults keeps only some."""


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
    """Columns of one row per second; None where there was no sample. Quantiles slide over ``window_s``.

    ``*_low_ms`` to ``*_high_ms`` is the 95 % order-statistic interval of the quantile, as if the window's samples
    were independent; None where the window holds too few to bound it on that side. A run of more than
    four hours keeps, of every bucket of seconds, each column's minimum and maximum (``reduced``); the
    artifact ``series`` holds every second.
    """

    window_s: float = 10.0
    reduced: bool = False
    t_s: list[float] = []
    ttft_p50_ms: list[float | None] = []
    ttft_p50_low_ms: list[float | None] = []
    ttft_p50_high_ms: list[float | None] = []
    ttft_p95_ms: list[float | None] = []
    ttft_p95_low_ms: list[float | None] = []
    ttft_p95_high_ms: list[float | None] = []
    ttft_p99_ms: list[float | None] = []
    ttft_p99_low_ms: list[float | None] = []
    ttft_p99_high_ms: list[float | None] = []
    gap_p50_ms: list[float | None] = []
    gap_p50_low_ms: list[float | None] = []
    gap_p50_high_ms: list[float | None] = []
    gap_p95_ms: list[float | None] = []
    gap_p95_low_ms: list[float | None] = []
    gap_p95_high_ms: list[float | None] = []
    gap_p99_ms: list[float | None] = []
    gap_p99_low_ms: list[float | None] = []
    gap_p99_high_ms: list[float | None] = []
    e2e_p50_ms: list[float | None] = []
    e2e_p50_low_ms: list[float | None] = []
    e2e_p50_high_ms: list[float | None] = []
    e2e_p95_ms: list[float | None] = []
    e2e_p95_low_ms: list[float | None] = []
    e2e_p95_high_ms: list[float | None] = []
    e2e_p99_ms: list[float | None] = []
    e2e_p99_low_ms: list[float | None] = []
    e2e_p99_high_ms: list[float | None] = []
    tokens_per_s: list[float | None] = []
    """None in the second in which the load ended: what came in a part of it would look like a fall."""
    requests_per_s: list[float | None] = []
    errors_per_s: list[float | None] = []
    in_flight: list[float] = []
    error_percent: list[float | None] = []
    """Of the requests that ended in the window, those that failed; None where none ended."""
    client_lag_p99_ms: list[float | None] = []
    """The load generator's own lateness, over the same window."""


class HeatMap(Part):
    """How often which latency was seen when: counts by time and by logarithmic class of the value."""

    metric: str
    begin_s: float
    column_s: float
    """Width of one column; as wide as at most 200 columns need."""
    edges_ms: list[float] = []
    """Ascending; row i holds values from ``edges_ms[i]`` to ``edges_ms[i + 1]``."""
    counts: list[list[int]] = []
    """One list per row, one number per column."""


class WorstRequest(Part):
    """One of the worst requests of the run, with its token timeline; moments count from its scheduled time."""

    j: int
    """Its place in the arrival schedule; ``chaosflow records RUN --where 'j = …'`` shows all of it."""
    sched_s: float
    segment: str = ""
    outcome: str
    status: int = 0
    error: str = ""
    tokens: int = 0
    fired_ms: float | None = None
    headers_ms: float | None = None
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    max_gap_ms: float | None = None
    events_ms: list[float] = []
    """Arrivals of its content events; of more than 400, those around the longest gaps and an even choice."""


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
    killed: bool = False
    """The run was killed before it could judge itself; this was rebuilt from what it had written down."""
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
    heat: list[HeatMap] = []
    worst: list[WorstRequest] = []
    """At most ten, worst first: up to five that failed, the rest the slowest that ended well."""
    probes: dict[str, ProbeSeries] = {}
    client: ClientHealth = ClientHealth()
    events: list[Event] = []
    notes: list[str] = []
    """Warnings a reader must know."""
    artifacts: dict[str, str] = {}
    """Name -> path below the run's folder."""
    totals: dict[str, float] = Field(default_factory=dict)
