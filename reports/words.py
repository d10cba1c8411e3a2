"""Numbers and states as people read them, the same in the page, the terminal and JUnit."""

from __future__ import annotations

import re

from chaosflow.core.errors import ExitCode
from chaosflow.core.result import (
    FaultResult,
    ObjectiveResult,
    RecoveryResult,
    RunResult,
    SegmentVerdictResult,
)
from chaosflow.core.slo import SHARE_KINDS, State
from chaosflow.core.units import format_duration, significant

NONE = "–"
"""Shown where there is no number: never 0, never NaN."""
STATE_MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "invalid": "!", "error": "!"}

_NAMED = re.compile(r"(?:^|limit )in (\S+?)(?: \(and \d+ more\))?:")
_EXIT_WORDS = {
    ExitCode.PASS: "all passed",
    ExitCode.FAIL: "failed, or aborted",
    ExitCode.USAGE: "refused; nothing was touched",
    ExitCode.INCONCLUSIVE: "too few samples to decide",
    ExitCode.INVALID: "the measurement proves nothing",
    ExitCode.NOT_UNDONE: "a fault could not be undone",
    ExitCode.ERROR: "an error of ChaosFlow's own",
    ExitCode.INTERRUPTED: "interrupted; everything was undone",
    ExitCode.TERMINATED: "terminated; everything was undone",
}


def exit_words(code: int) -> str:
    """What an exit code means, in words."""
    return _EXIT_WORDS[ExitCode(code)] if code in set(ExitCode) else "unknown exit code"


def severity(state: str) -> int:
    """0 pass … 4 error; an unknown word counts as error, so that it can never look green."""
    return int(State[state.upper()]) if state.upper() in State.__members__ else int(State.ERROR)


def is_green(result: RunResult) -> bool:
    """Only an explicit pass that also ended with 0."""
    return result.state == "pass" and result.exit_code == 0


def shown_state(result: RunResult) -> str:
    """The run's state for the headline; a pass with an exit code of its own is shown as an error."""
    return "error" if result.state == "pass" and result.exit_code != 0 else result.state


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, thousands apart: ``1,980``, ``24.1``, ``0.62``."""
    if value is None or value != value:
        return NONE
    return significant(value, digits)


def reading(series: str, value: float) -> str:
    """A probe's value in the unit that the last word of its name gives: ``23.1 GB``, ``99.5 %``, ``1,980``."""
    if series.endswith("_bytes"):
        for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if abs(value) >= size:
                return f"{number(value / size)} {unit}"
    if series.endswith("_percent"):
        return f"{number(value)} %"
    return number(value)


def share(value: float | None) -> str:
    """A share 0..1 in per cent."""
    return NONE if value is None else f"{number(value * 100)} %"


def seconds_at(value: float | None) -> str:
    """A moment on the run's time axis: ``45.021 s``."""
    return NONE if value is None else f"{value:,.3f} s"


def measured(objective: ObjectiveResult, value: float | None) -> str:
    """A limit or observation in the unit of the objective's metric."""
    if value is None:
        return NONE
    if objective.kind in SHARE_KINDS:
        return share(value)
    return format_duration(value)


def interval(objective: ObjectiveResult, verdict: SegmentVerdictResult) -> str:
    """The 95 % confidence interval, or an empty string."""
    if verdict.low is None or verdict.high is None:
        return ""
    return f"{measured(objective, verdict.low)} to {measured(objective, verdict.high)}"


def exceedances(verdict: SegmentVerdictResult) -> str:
    """k; a range where interval stamps leave it open."""
    if verdict.k_low == verdict.k_high:
        return f"{verdict.k_low:,}"
    return f"{verdict.k_low:,} to {verdict.k_high:,}"


def worst_segment(objective: ObjectiveResult) -> SegmentVerdictResult | None:
    """The segment that decides an objective: the one its sentence names, else of equals the one nearest to its limit.

    None where none was judged.
    """
    if (match := _NAMED.search(objective.sentence)) is not None:
        named = [v for v in objective.segments if v.segment == match[1]]
        if named:
            return named[0]
    return max(objective.segments, key=lambda v: (severity(v.state), _strain(objective, v)), default=None)


def _strain(objective: ObjectiveResult, verdict: SegmentVerdictResult) -> float:
    """How near an observation is to its limit: above 1 is beyond it; 0 where nothing was observed."""
    if verdict.observed is None or not verdict.limit:
        return 0.0
    ratio = abs(verdict.observed) / verdict.limit
    better_high = objective.metric in ("goodput", "completeness")
    return 1 / ratio if better_high and ratio else ratio


def objective_state(objective: ObjectiveResult) -> str:
    """The state to show: an objective that no segment was judged by never looks green."""
    if not objective.segments and objective.state == "pass":
        return "inconclusive"
    return objective.state


def objective_sentence(objective: ObjectiveResult) -> str:
    """The reason in one sentence; says so where there were no samples."""
    return objective.sentence or "no samples: it was never judged, which is not a pass"


def fault_state(fault: FaultResult) -> tuple[str, str]:
    """(state word for colour, what to say) about whether a fault was there and is gone."""
    if fault.inject_begin_s is None:
        return "inconclusive", "not injected"
    if fault.reversible and not fault.reverted:
        return "error", "NOT undone"
    if not fault.confirmed:
        return "invalid", "not confirmed"
    return "pass", "confirmed, undone" if fault.reversible else "confirmed"


def recovery_words(recovery: RecoveryResult | None) -> str:
    """``2.1 s``, ``> 30 s`` where it was not reached, or that nobody looked."""
    if recovery is None or not recovery.measured:
        return "not measured"
    if recovery.seconds is None:
        return f"> {format_duration(recovery.watched_s)} (not reached)"
    return format_duration(recovery.seconds)


def params_words(fault: FaultResult) -> str:
    """``latency_ms 40, jitter_ms 15``."""
    return ", ".join(f"{key} {value}" for key, value in fault.params.items()) or NONE
