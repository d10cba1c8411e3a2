"""From a result to what becomes of its test."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from chaosflow.pytest_plugin.failures import BY_STATE, ChaosFailure, ChaosWarning, NotUndone, SlaBroken

if TYPE_CHECKING:
    from chaosflow.core.result import FaultResult, ObjectiveResult, RunResult, SegmentResult

T = TypeVar("T")
Outcome = dict[str, Any]
"""What a report tells of one run: plain data, since it travels between the processes of pytest-xdist."""
OUTCOMES: pytest.StashKey[list[Outcome]] = pytest.StashKey()
WIDTH = 78


class ChaosRun:
    """What a scenario, or a check, has shown. Everything is in ``result`` (docs/result-schema.md)."""

    def __init__(self, result: RunResult | None = None, folder: Path | None = None) -> None:
        self._result, self._folder = result, folder
        self.asked_at = ""
        """File and line of the call that asked for it."""

    def fill(self, other: ChaosRun) -> None:
        """It has taken place: be ``other`` from now on."""
        self._result, self._folder = other.result, other.folder

    @property
    def result(self) -> RunResult:
        if self._result is None:
            pytest.fail("chaos_run: the scenario runs just before the test's body, after all fixtures")
        return self._result

    @property
    def folder(self) -> Path:
        """Where everything that was measured lies."""
        self.result  # noqa: B018  (says so where there is none yet)
        assert self._folder is not None
        return self._folder

    @property
    def state(self) -> str:
        """``pass``, ``fail``, ``inconclusive``, ``invalid`` or ``error``."""
        return self.result.state

    @property
    def passed(self) -> bool:
        return self.result.state == "pass" and self.result.exit_code == 0

    @property
    def reason(self) -> str:
        return self.result.reason

    @property
    def report(self) -> Path:
        """The HTML report; after a check within a fault it is written when the fault has been undone."""
        return self.folder / "report.html"

    def objective(self, text: str) -> ObjectiveResult:
        """Raises KeyError."""
        return _named(self.result.objectives, "text", text)

    def fault(self, name: str) -> FaultResult:
        """Raises KeyError."""
        return _named(self.result.faults, "name", name)

    def segment(self, name: str) -> SegmentResult:
        """``baseline``, a fault's name, ``<fault>.recovery``. Raises KeyError."""
        return _named(self.result.segments, "name", name)

    def __repr__(self) -> str:
        if self._result is None:
            return "<ChaosRun: still to come>"
        return f"<ChaosRun {self.result.run_id}: {self.state}, {self.reason}>"


def _named(items: Sequence[T], attribute: str, name: str) -> T:
    for item in items:
        if getattr(item, attribute) == name:
            return item
    raise KeyError(f"{name!r}; there are: {', '.join(repr(getattr(i, attribute)) for i in items)}")


def note(item: pytest.Item, run: ChaosRun, what: str) -> None:
    """Keep a run for the summary of the session, and as properties of the test in JUnit."""
    result = run.result
    outcome: Outcome = {
        "what": what,
        "state": result.state if run.passed or result.state != "pass" else "error",
        "reason": result.reason,
        "run_id": result.run_id,
        "report": str(run.report),
        "simulated": list(result.simulated),
        "seconds": result.wall_s,
    }
    kept = item.stash.setdefault(OUTCOMES, [])
    kept.append(outcome)
    prefix = "chaosflow" if len(kept) == 1 else f"chaosflow.{len(kept)}"
    item.user_properties += [
        (f"{prefix}.{name}", str(outcome[name])) for name in ("run_id", "state", "reason", "report")
    ]
    item.user_properties.append((f"{prefix}.simulated", "; ".join(result.simulated) or "nothing"))
    item.user_properties.append((f"{prefix}.seed", str(result.seed)))
    for objective in result.objectives:
        for verdict in objective.segments:
            name = f"{prefix}.objective: {objective.text} [{verdict.segment}]"
            item.user_properties.append((name, f"{verdict.state}: {verdict.sentence}"))


def cut_by(error: BaseException) -> str:
    """Why a run beside a test's own code ended early, for its report: it has not seen all that it was to see."""
    return f"the test's own code ended early ({type(error).__name__}), so this shows only a part"


def enforce(item: pytest.Item, run: ChaosRun, inconclusive: str, expect: str = "pass") -> None:
    """Raise what a verdict that is not the expected one means for its test."""
    state = run.state
    if run.result.exit_code == 5:
        raise NotUndone(explain(run))
    if expect == "fail":
        if state == "fail":
            return
        if state == "pass":
            raise SlaBroken(f"the SLA held, although expect='fail' says it breaks\n\n{explain(run)}")
    elif run.passed:
        return
    if state == "inconclusive" and inconclusive != "fail":
        text = f"inconclusive: {run.reason}"
        if inconclusive == "skip":
            pytest.skip(text)
        item.warn(ChaosWarning(text))
        return
    raise BY_STATE.get(state, ChaosFailure)(explain(run))


def explain(run: ChaosRun) -> str:
    """State and reason; every objective, with the windows that do not hold; every fault; where the report lies."""
    result = run.result
    lines = [*_wrapped(result.reason, ""), ""]
    for objective in result.objectives:
        lines += _objective_lines(objective)
    if result.faults:
        lines.append("")
    for fault in result.faults:
        lines += _wrapped(f"fault {fault.name}: {fault_words(fault)}", "    ")
    lines += ["", *_notes(result)]
    where = f"run {result.run_id}, seed {result.seed}, {result.wall_s:.0f} s"
    lines += [*_wrapped(where, "    "), f"report: {shown(run.report)}"]
    if run.asked_at:
        lines.append(f"asked: {shown(run.asked_at)}")
    return "\n".join(lines)


def _objective_lines(objective: ObjectiveResult) -> list[str]:
    """What holds takes one line, however many windows: what does not hold is to be found at a glance."""
    from chaosflow.reports import words

    state = words.objective_state(objective)
    mark = words.STATE_MARKS.get(state, "!")
    if state == "pass":
        return _wrapped(f"{mark} {objective.text}: {words.objective_sentence(objective)}", "    ")
    lines = [f"{mark} {objective.text}"]
    for verdict in objective.segments:
        if verdict.state != "pass":
            mark = words.STATE_MARKS.get(verdict.state, "!")
            lines += _wrapped(f"    {mark} in {verdict.segment}: {verdict.sentence}", "        ")
    if held := [verdict.segment for verdict in objective.segments if verdict.state == "pass"]:
        lines += _wrapped(f"    {words.STATE_MARKS['pass']} in {', '.join(held)}", "        ")
    return lines


def fault_words(fault: FaultResult) -> str:
    """``proxy.latency (delay_ms 40), confirmed: 3 connections met it``."""
    from chaosflow.reports import words

    simulated = ", simulated" if fault.simulated else ""
    text = f"{fault.kind}{simulated}"
    if fault.inject_begin_s is None:
        return f"{text}, not injected" + (f": {fault.error}" if fault.error else "")
    state = "confirmed" if fault.confirmed else "NOT confirmed"
    said = fault.error or fault.evidence
    acting = "" if fault.reverted or not fault.reversible else ", still acting when this was judged"
    recovery = ""
    if fault.recovery is not None and fault.recovery.measured:
        recovery = f"; recovery {words.recovery_words(fault.recovery)}"
    return f"{text}, {state}{acting}: {said}{recovery}"


def _notes(result: RunResult) -> list[str]:
    found = []
    for text in result.simulated:
        found += _wrapped(f"simulated: {text}", "    ")
    for text in result.notes:
        found += _wrapped(f"note: {text}", "    ")
    for fault in result.faults:
        if result.exit_code == 5 and fault.manual_undo and not fault.reverted:
            found.append(f"undo {fault.name} by hand: {fault.manual_undo}")
    return found


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def shown(path: Path | str) -> str:
    """Relative to where one is, when it lies below; else as it is."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
