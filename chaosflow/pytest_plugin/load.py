"""Keywords of the marker ``slo`` and of ``slo_checker`` as what a Watch wants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaosflow.orchestrator.watch import Wanted

LOAD_KEYWORDS = (
    "rate_per_s",
    "prompt_tokens",
    "output_tokens",
    "load",
    "warmup",
    "window",
    "seed",
)


def seconds(what: str, value: object) -> float:
    """Seconds of ``"10s"`` or of a number; raises UsageError."""
    from chaosflow.core.errors import UsageError
    from chaosflow.core.units import parse_duration_s

    try:
        return parse_duration_s(value)
    except ValueError as e:
        raise UsageError(what, str(e)) from None


def wanted_of(
    name: str, objectives: Sequence[str], keywords: Mapping[str, Any], command: Sequence[str] = ()
) -> Wanted:
    """Raises UsageError or ScenarioError with every wrong keyword."""
    from chaosflow.core.errors import UsageError
    from chaosflow.core.grammar import parse_objective
    from chaosflow.orchestrator.byhand import make_load, refuse_unknown
    from chaosflow.orchestrator.watch import Wanted

    refuse_unknown("load", keywords, LOAD_KEYWORDS)
    if not objectives:
        raise UsageError("slo_checker", "there is no objective", "write for example 'ttft.p95 <= 200ms'")
    for text in objectives:
        try:
            parse_objective(text)
        except (ValueError, AttributeError, TypeError) as e:
            raise UsageError("slo_checker", str(e)) from None
    plan = make_load(**{k: keywords[k] for k in LOAD_KEYWORDS[:4] if k in keywords})
    return Wanted(
        name=run_name(name),
        objectives=list(objectives),
        load=plan,
        warmup_s=seconds("warmup", keywords.get("warmup", "1s")),
        window_s=seconds("window", keywords.get("window", "60s")),
        seed=int(keywords.get("seed", 7)),
        command=command,
    )


def run_name(text: str) -> str:
    """A name that a run may have: ``test_chat[h200]`` -> ``test_chat-h200``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or "check"
