"""The one-line grammar of objectives and abort rules (docs/scenario.md)."""

from __future__ import annotations

import re

from chaosflow.core.slo import METRICS, AbortRule, Kind, Objective
from chaosflow.core.units import did_you_mean, parse_duration_s

DEFAULT_THRESHOLD_S = {"stalls": 1.0, "burstiness": 0.001}
"""What makes a gap a stall, or a burst; ``stalls.500ms`` says otherwise."""
_ABORTABLE = ("ttft", "gap", "e2e", "error_rate")
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
            return Objective(text, metric, kind, _positive(text, factor[1]), q, relative=True, during=during)
        return Objective(text, metric, kind, _limit_s(text, limit), q, during=during)
    if kind is Kind.DRIFT:
        if stat != "drift":
            raise ValueError(
                f"objective {text!r}: {metric} is judged by its drift; write '{metric}.drift within 15%'"
            )
        _require_op(text, metric, op, "within")
        return Objective(text, metric, kind, _share(text, limit), during=during)
    if kind is Kind.EVENT_SHARE:
        _require_op(text, metric, op, "<=")
        threshold_s = _limit_s(text, stat) if stat else DEFAULT_THRESHOLD_S[metric]
        return Objective(text, metric, kind, _share(text, limit), threshold_s=threshold_s, during=during)
    if stat:
        raise ValueError(f"objective {text!r}: {metric} takes no '.{stat}'")
    if kind in (Kind.RECOVERY, Kind.HEALTH):
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
    if metric not in _ABORTABLE:
        raise ValueError(
            f"abort rule {text!r}: only error_rate and percentiles of ttft, gap and e2e can abort a run"
        )
    if kind in (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE):
        return AbortRule(
            text, metric, _quantile(text, metric, match["stat"] or ""), _limit_s(text, match["limit"]), for_s
        )
    if match["stat"]:
        raise ValueError(f"abort rule {text!r}: {metric} takes no '.{match['stat']}'")
    return AbortRule(text, metric, 0.0, _share(text, match["limit"]), for_s)


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
