"""What must fit together in a scenario beyond its types: names, references, durations, objectives.

Pure; used by the loader (which adds file, line and column) and by the timeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaosflow.core.slo import Kind, Objective, probes_needed
from chaosflow.core.units import did_you_mean
from chaosflow.core.yamltree import Path


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong at a path of the scenario; ``Loaded.problems`` gives it file, line and column."""

    path: Path
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One fault as far as it is known: a broken one still takes part in the checks of the others."""

    index: int
    name: str
    after: str | None = None
    with_: str | None = None
    has_duration: bool = False
    reversible: bool | None = None
    """None = the type is unknown."""
    kind: str = ""

    @property
    def before(self) -> str | None:
        """The fault that this one waits for or goes with."""
        return self.after.removesuffix(".revert") if self.after is not None else self.with_

    @property
    def start_key(self) -> str:
        return "after" if self.after is not None else "with"


def fault_issues(steps: Sequence[StepFacts]) -> list[Issue]:
    """Everything wrong between faults: names twice, unknown references, cycles, durations."""
    by_name = {step.name: step for step in steps}
    issues = [*_twice(steps), *_durations(steps)]
    for step in steps:
        issues += _reference(step, by_name)
    issues += _cycles(steps, by_name)
    return issues


def _twice(steps: Sequence[StepFacts]) -> Iterator[Issue]:
    counts = Counter(step.name for step in steps)
    seen: set[str] = set()
    for step in steps:
        if step.name in seen:
            yield Issue(
                ("faults", step.index, "name"),
                f"{counts[step.name]} faults are named {step.name!r}",
                "give each its own name",
            )
        seen.add(step.name)


def _durations(steps: Sequence[StepFacts]) -> Iterator[Issue]:
    for step in steps:
        path: Path = ("faults", step.index)
        if step.reversible and not step.has_duration:
            yield Issue(
                (*path, "duration"),
                f"{step.name}: 'duration' is missing",
                "say how long it acts: 'duration: 30s'",
            )
        elif step.reversible is False and step.has_duration:
            yield Issue(
                (*path, "duration"),
                f"{step.name}: {step.kind} is over at once, it has no duration",
                "remove 'duration'; what follows is watched for phases.recovery",
            )


def _reference(step: StepFacts, by_name: dict[str, StepFacts]) -> Iterator[Issue]:
    if step.before is None:
        return
    path: Path = ("faults", step.index, step.start_key)
    if step.before == step.name:
        yield Issue(path, f"{step.name} refers to itself", "name another fault, or use 'at'")
    elif step.before not in by_name:
        others = [n for n in by_name if n != step.name]
        hint = did_you_mean(step.before, others) or f"faults here: {', '.join(others) or 'no other'}"
        yield Issue(path, f"{step.start_key}: no fault is named {step.before!r}", hint)
    elif (step.after or "").endswith(".revert") and by_name[step.before].reversible is False:
        yield Issue(
            path,
            f"{step.before} cannot be reverted, so there is no {step.after}",
            f"write 'after: {step.before}' or 'with: {step.before}'",
        )


def _cycles(steps: Sequence[StepFacts], by_name: dict[str, StepFacts]) -> Iterator[Issue]:
    reported: set[str] = set()
    for step in steps:
        chain = [step.name]
        while (before := by_name[chain[-1]].before) in by_name and before not in chain:
            chain.append(before)
        if before != step.name or len(chain) == 1 or reported.intersection(chain):
            continue  # no cycle, or one that this fault only leads into, or "refers to itself"
        reported.update(chain)
        yield Issue(
            ("faults", step.index, step.start_key),
            f"faults wait for each other: {' -> '.join([*chain, step.name])}",
            "give one of them 'at'",
        )


def objective_issues(
    objectives: Sequence[tuple[int, Objective]],
    steps: Sequence[StepFacts],
    recovery_s: float | None,
    probes: Sequence[str] | None = None,
) -> list[Issue]:
    """Objectives that nothing in this scenario could ever decide. ``probes`` None: not known."""
    names = frozenset(step.name for step in steps)
    segments = ["baseline", *names, *(f"{name}.recovery" for name in names)]
    issues: list[Issue] = []
    for index, objective in objectives:
        path: Path = ("sla", "objectives", index)
        base = (objective.during or "").removesuffix(".recovery")
        if (
            objective.during
            and objective.during not in ("baseline", "faults", "recovery")
            and base not in names
        ):
            known = ["baseline", "faults", "recovery", *sorted(names)]
            hint = did_you_mean(objective.during, known) or f"known: {', '.join(known)}"
            issues.append(Issue(path, f"{objective.text!r}: no fault is named {objective.during!r}", hint))
        elif objective.kind is Kind.RECOVERY and (not names or recovery_s == 0):
            why = "there is no fault to recover from" if not names else "phases.recovery is 0"
            issues.append(
                Issue(path, f"{objective.text!r}: {why}", "remove the objective, or add what it needs")
            )
        elif probes is not None and (lacking := [p for p in probes_needed([objective]) if p not in probes]):
            remedy = f"write 'probes: [{', '.join([*probes, *lacking])}]'"
            issues.append(Issue(path, f"{objective.text!r} needs the probe {lacking[0]!r}", remedy))
        elif not any(objective.holds_for(segment, names) for segment in segments):
            remedy = "add a fault, or remove the objective"
            issues.append(Issue(path, f"{objective.text!r} holds for no part of this run", remedy))
    return issues
