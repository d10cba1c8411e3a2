"""Objectives, their one-line grammar, abort rules, and the states a verdict can have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from chaosflow.core.errors import ExitCode
from chaosflow.core.units import did_you_mean, parse_duration_s


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
    DRIFT = "drift"
    RECOVERY = "recovery"


METRICS: dict[str, Kind] = {
    "ttft": Kind.REQUEST_QUANTILE,
    "e2e": Kind.REQUEST_QUANTILE,
    "tpot": Kind.REQUEST_QUANTILE,
    "gap": Kind.EVENT_QUANTILE,
    "error_rate": Kind.SHARE,
    "completeness": Kind.SHARE,
    "goodput": Kind.SHARE,
    "throughput": Kind.DRIFT,
    "recovery": Kind.RECOVERY,
}
"""Metric name -> how it is decided (definitions: docs/glossary.md)."""

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
        if self.kind is Kind.SHARE:
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


_OBJECTIVE = re.compile(
    r"^(?P<metric>[a-z_0-9]+)(?:\.(?P<stat>[a-z0-9.]+))?\s*(?P<op><=|>=|<|>|==|within)\s*(?P<limit>.+?)"
    r"(?:\s+during\s+(?P<during>\S+))?$"
)
_ABORT = re.compile(
    r"^(?P<metric>[a-z_0-9]+)(?:\.(?P<stat>[a-z0-9.]+))?\s*>\s*(?P<limit>\S+)\s+for\s+(?P<span>.+)$"
)
_QUANTILE = re.compile(r"^p(\d{1,2}(?:\.\d+)?)$")


def parse_objective(text: str) -> Objective:
    """An Objective of one line such as ``ttft.p95 <= 200ms during baseline``.

    Raises ValueError saying what is wrong and what would be right.
    """
    match = _OBJECTIVE.match(text.strip())
    if not match:
        raise ValueError(
            f"cannot read objective {text!r}; write for example 'ttft.p95 <= 200ms during baseline'"
        )
    metric, stat, op, limit = match["metric"], match["stat"] or "", match["op"], match["limit"].strip()
    kind = _kind_of(metric)
    during = match["during"]
    if kind in (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE):
        q = _quantile(text, metric, stat)
        _require_op(text, metric, op, "<=")
        factor = re.match(r"^([\d.]+)\s*x\s+baseline$", limit)
        if factor:
            return Objective(text, metric, kind, _positive(text, factor[1]), q, True, during)
        return Objective(text, metric, kind, _limit_s(text, limit), q, False, during)
    if kind is Kind.DRIFT:
        if stat != "drift":
            raise ValueError(
                f"objective {text!r}: {metric} is judged by its drift; write '{metric}.drift within 15%'"
            )
        _require_op(text, metric, op, "within")
        return Objective(text, metric, kind, _share(text, limit), during=during)
    if stat:
        raise ValueError(f"objective {text!r}: {metric} takes no '.{stat}'")
    if kind is Kind.RECOVERY:
        _require_op(text, metric, op, "<=")
        return Objective(text, metric, kind, _limit_s(text, limit), during=during)
    _require_op(text, metric, op, "<=" if metric == "error_rate" else ">=")
    return Objective(text, metric, kind, _share(text, limit), during=during)


def parse_abort(text: str) -> AbortRule:
    """An AbortRule of one line; raises ValueError."""
    match = _ABORT.match(text.strip())
    if not match:
        raise ValueError(f"cannot read abort rule {text!r}; write for example 'error_rate > 50% for 10s'")
    metric, kind = match["metric"], _kind_of(match["metric"])
    for_s = parse_duration_s(match["span"])
    if for_s <= 0:
        raise ValueError(f"abort rule {text!r}: the time after 'for' must be above 0")
    if kind in (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE):
        return AbortRule(
            text, metric, _quantile(text, metric, match["stat"] or ""), _limit_s(text, match["limit"]), for_s
        )
    if metric == "error_rate" and not match["stat"]:
        return AbortRule(text, metric, 0.0, _share(text, match["limit"]), for_s)
    raise ValueError(f"abort rule {text!r}: only error_rate and percentiles of times can abort a run")


def _kind_of(metric: str) -> Kind:
    if metric not in METRICS:
        hint = did_you_mean(metric, METRICS) or f"known metrics: {', '.join(METRICS)}"
        raise ValueError(f"unknown metric {metric!r}; {hint}")
    return METRICS[metric]


def _quantile(text: str, metric: str, stat: str) -> float:
    match = _QUANTILE.match(stat)
    if not match or not 0 < float(match[1]) < 100:
        raise ValueError(f"objective {text!r}: {metric} needs a percentile such as {metric}.p95")
    return float(match[1]) / 100


def _require_op(text: str, metric: str, op: str, wanted: str) -> None:
    if op != wanted:
        raise ValueError(f"objective {text!r}: {metric} takes {wanted!r}, not {op!r}")


def _limit_s(text: str, limit: str) -> float:
    if re.fullmatch(r"[\d.]+", limit):
        raise ValueError(f"objective {text!r}: {limit} has no unit; write {limit}ms or {limit}s")
    seconds = parse_duration_s(limit)
    if seconds <= 0:
        raise ValueError(f"objective {text!r}: the limit must be above 0")
    return seconds


def _share(text: str, limit: str) -> float:
    match = re.fullmatch(r"([\d.]+)\s*(%?)", limit)
    if not match:
        raise ValueError(f"objective {text!r}: {limit!r} is not a share; write for example 1%")
    if not match[2] and float(match[1]) >= 1:
        raise ValueError(f"objective {text!r}: {limit} has no unit; write {limit}%")
    share = float(match[1]) / (100 if match[2] else 1)
    if not 0 <= share <= 1:
        raise ValueError(f"objective {text!r}: {limit} is not between 0% and 100%")
    return share


def _positive(text: str, number: str) -> float:
    value = float(number)
    if value <= 0:
        raise ValueError(f"objective {text!r}: the factor must be above 0")
    return value


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
