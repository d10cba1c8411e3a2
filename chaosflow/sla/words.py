"""Numbers as a reader wants them in a sentence."""

from __future__ import annotations

from chaosflow.core.slo import Objective
from chaosflow.core.units import format_duration, significant

_ONE_AND_MANY = {
    "gap": ("gap", "gaps"),
    "itl": ("gap", "gaps"),
    "stalls": ("gap", "gaps"),
    "burstiness": ("gap", "gaps"),
    "completeness": ("stream", "streams"),
}


def percent(share: float) -> str:
    """``0.0037`` -> ``0.37 %``; three digits, more where fewer would say 100 % of what is not all."""
    digits = 3
    while share < 1 and digits < 15 and float(f"{100 * share:.{digits}g}") >= 100:
        digits += 3
    return f"{significant(100 * share, digits)} %"


def signed_percent(change: float) -> str:
    return f"{'+' if change > 0 else ''}{significant(100 * change)} %" if change else "0 %"


def number(count: int) -> str:
    """``1234567`` -> ``1,234,567``."""
    return f"{count:,}"


def noun(objective: Objective, count: int) -> str:
    """What an objective counts: requests, gaps or streams."""
    one, many = _ONE_AND_MANY.get(objective.metric, ("request", "requests"))
    return one if count == 1 else many


def quantile_name(q: float) -> str:
    """``0.99`` -> ``p99``; ``0.999`` -> ``p99.9``."""
    return f"p{100 * q:.6g}"


def of_total(low: int, high: int, n: int, what: str) -> str:
    """``3 of 812 requests``, or ``between 3 and 9 of 812 requests``."""
    k = number(low) if low == high else f"between {number(low)} and {number(high)}"
    return f"{k} of {number(n)} {what}"


def share_of(low: int, high: int, n: int) -> str:
    if low == high:
        return percent(low / n)
    return f"{percent(low / n)} to {percent(high / n)}"


def seconds(value_s: float) -> str:
    return format_duration(value_s)
