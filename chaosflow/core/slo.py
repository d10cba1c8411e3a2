"""Objectives, abort rules, and the states a verdict can have; chaosflow.core.grammar reads them from a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from chaosflow.core.budget import Budget, Sliding
from chaosflow.core.errors import ExitCode


class State(IntEnum):
    """The worst wins: ``max`` of the parts is the state of the whole. Only ``PASS`` passes."""

    PASS = 0
    INCONCLUSIVE = 1
    FAIL = 2
    INVALID = 3
    ERROR = 4

    @property
    def word(self) -> str:
        return self.name.lower()

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    State.PASS: ExitCode.PASS,
    State.FAIL: ExitCode.FAIL,
    State.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    State.INVALID: ExitCode.INVALID,
    State.ERROR: ExitCode.ERROR,
}


class Kind(StrEnum):
    """How an objective is decided."""

    REQUEST_QUANTILE = "request_quantile"
    """P-q of a time that each request has once."""
    EVENT_QUANTILE = "event_quantile"
    """P-q of a time that each content event has."""
    SHARE = "share"
    """Share of the cohort's requests that are bad (``error_rate``) or good (the others)."""
    EVENT_SHARE = "event_share"
    """Share of the gaps that are too long (``stalls``) or too short (``burstiness``)."""
    HEALTH = "health"
    """How long the target's own health check said otherwise than its tokens."""
    DRIFT = "drift"
    RECOVERY = "recovery"


METRICS: dict[str, Kind] = {
    "ttft": Kind.REQUEST_QUANTILE,
    "e2e": Kind.REQUEST_QUANTILE,
    "tpot": Kind.REQUEST_QUANTILE,
    "gap": Kind.EVENT_QUANTILE,
    "itl": Kind.EVENT_QUANTILE,
    "stalls": Kind.EVENT_SHARE,
    "burstiness": Kind.EVENT_SHARE,
    "error_rate": Kind.SHARE,
    "completeness": Kind.SHARE,
    "goodput": Kind.SHARE,
    "throughput": Kind.DRIFT,
    "recovery": Kind.RECOVERY,
    "health_truth": Kind.HEALTH,
    "time_to_unready": Kind.HEALTH,
}
"""Metric name -> how it is decided (definitions: docs/glossary.md)."""

SHARE_KINDS = frozenset({Kind.SHARE, Kind.EVENT_SHARE, Kind.DRIFT})
"""Their limits and observations are shares; those of the others are seconds."""
_PROBE_OF = {"health_truth": "health", "time_to_unready": "health"}


def probes_needed(objectives: Iterable[Objective]) -> dict[str, str]:
    """Probe -> the first objective that reads it."""
    found: dict[str, str] = {}
    for objective in objectives:
        if (probe := _PROBE_OF.get(objective.metric)) is not None:
            found.setdefault(probe, objective.text)
    return found


RESERVED_NAMES = ("baseline", "faults", "recovery", "warmup", "edge", "between")


@dataclass(frozen=True, slots=True)
class Objective:
    """One line of ``sla.objectives``, parsed."""

    text: str
    metric: str
    kind: Kind
    limit: float
    """Seconds for times, a share 0..1 for shares and drift, a factor where ``relative``."""
    q: float = 0.0
    """The quantile, 0.99 for p99; 0 where the kind has none."""
    threshold_s: float = 0.0
    """What makes a gap a stall (longer) or a burst (shorter); 0 where the kind has none."""
    relative: bool = False
    """``limit`` is a factor of the baseline's own quantile, fixed when the baseline ends."""
    during: str | None = None
    """``baseline``, ``faults``, ``recovery``, a fault's name or ``<fault>.recovery``; None = all."""

    @property
    def lower_is_better(self) -> bool:
        return self.metric not in ("completeness", "goodput")

    @property
    def allowed_share(self) -> float:
        """p0: the share of exceedances that the objective still allows."""
        if self.kind in (Kind.SHARE, Kind.EVENT_SHARE):
            return self.limit if self.lower_is_better else 1.0 - self.limit
        return 1.0 - self.q

    def holds_for(
        self, segment: str, fault_names: frozenset[str], instants: frozenset[str] = frozenset()
    ) -> bool:
        """Whether a segment (``baseline``, ``jitter``, ``jitter.recovery``) is judged by this objective.

        ``instants`` are segments without a length, those of faults that cannot be reverted: what a kill
        cuts short is lost by definition, so they are judged only where ``during`` names them.
        """
        if segment in instants:
            return self.during == segment
        is_fault = segment in fault_names
        is_recovery = segment.endswith(".recovery") and segment.removesuffix(".recovery") in fault_names
        if segment != "baseline" and not is_fault and not is_recovery:
            return False
        if self.relative and segment == "baseline":
            return False  # the baseline is the measure, not the measured
        match self.during:
            case None:
                return True
            case "faults":
                return is_fault
            case "recovery":
                return is_recovery
            case name:
                return segment == name


@dataclass(frozen=True, slots=True)
class AbortRule:
    """``error_rate > 50% for 10s``: the run stops, state fail, as soon as it held for that long."""

    text: str
    metric: str
    q: float
    limit: float
    for_s: float


@dataclass(frozen=True, slots=True)
class SegmentVerdict:
    """One objective in one segment."""

    segment: str
    state: State
    sentence: str
    """The reason in one sentence, with the numbers."""
    n: int = 0
    k_low: int = 0
    """Exceedances that are certain, with every interval stamp at its earliest and latest for the claim."""
    k_high: int = 0
    """Exceedances that are possible."""
    allowed_share: float = 0.0
    design_effect: float = 1.0
    limit: float | None = None
    """In the metric's unit (s, or share); the resolved one where the objective is relative."""
    observed: float | None = None
    """The quantile, share, drift or recovery time that was seen; None = no samples or censored."""
    low: float | None = None
    high: float | None = None
    """95 % confidence interval of ``observed``."""
    needs_more: int | None = None
    """Further samples without an exceedance after which it would pass."""


@dataclass(frozen=True, slots=True)
class ObjectiveVerdict:
    """One objective over all segments it holds for: the worst of them."""

    objective: Objective
    state: State
    sentence: str
    segments: tuple[SegmentVerdict, ...] = ()
    budget: Budget | None = None
    """None where no share of samples is allowed or forbidden: drift, recovery, health."""
    sliding: Sliding | None = None
    """What sliding windows would have alarmed; decides nothing."""
