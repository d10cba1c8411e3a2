"""When each fault begins and ends: ``at``, ``after``, ``with`` and ``duration`` as seconds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Literal

from chaosflow.core.checks import Issue, StepFacts, fault_issues
from chaosflow.core.errors import Problem, ScenarioError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import Host
from chaosflow.core.scenario import FaultStep, Scenario

Action = Literal["recovery_end", "revert", "inject"]
_ACTION_ORDER: tuple[Action, ...] = ("recovery_end", "revert", "inject")
"""At one instant the old is put away before the new begins."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault on the timeline; seconds from the END of the baseline."""

    name: str
    atom: FaultAtom
    inject_s: float
    revert_s: float | None
    """None = nothing to revert; its recovery counts from the injection."""
    recovery_end_s: float
    recovery_measured: bool = True
    unmeasured_because: str = ""

    @property
    def reversible(self) -> bool:
        return self.revert_s is not None

    @property
    def recovery_begin_s(self) -> float:
        return self.inject_s if self.revert_s is None else self.revert_s


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """What is due when; sorted by time, at one instant in the order in which it must be done."""

    at_s: float
    action: Action
    fault: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The plan of a run. Times count from the baseline's end; the load starts at ``-lead_in_s``."""

    warmup_s: float
    baseline_s: float
    steps: tuple[Step, ...]
    """In the scenario's order."""
    end_s: float
    """End of the last recovery; 0 without faults."""
    segment_s: dict[str, float]
    """Planned length of every segment that is judged: baseline, each fault, each fault's recovery."""
    events: tuple[TimelineEvent, ...]
    segment_spans: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """Where each of those lies, in pieces where another fault interrupts it."""

    @property
    def lead_in_s(self) -> float:
        return self.warmup_s + self.baseline_s

    @property
    def total_s(self) -> float:
        """The scenario's own length, warm-up included."""
        return self.lead_in_s + self.end_s

    def step(self, name: str) -> Step:
        """The step of that fault; KeyError when there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)


def build_timeline(scenario: Scenario, atoms: Mapping[str, FaultAtom]) -> Timeline:
    """The timeline of a scenario and its atoms (by fault name).

    Raises ScenarioError for unknown references, cycles and durations that do not fit the atom; a
    scenario that came from the loader has none of these.
    """
    _refuse_what_does_not_fit(scenario, atoms)
    planned: dict[str, Step] = {}
    by_name = {step.name: step for step in scenario.faults}
    for step in scenario.faults:
        _place(step, by_name, atoms, scenario.phases.recovery, planned)
    steps = tuple(_with_measured(planned[s.name], planned, by_name) for s in scenario.faults)
    spans = {"baseline": ((-scenario.phases.baseline, 0.0),)} | _segment_spans(steps)
    return Timeline(
        warmup_s=scenario.phases.warmup,
        baseline_s=scenario.phases.baseline,
        steps=steps,
        end_s=max((s.recovery_end_s for s in steps), default=0.0),
        segment_s={name: sum(end - begin for begin, end in pieces) for name, pieces in spans.items()},
        events=_events(steps),
        segment_spans=spans,
    )


def _refuse_what_does_not_fit(scenario: Scenario, atoms: Mapping[str, FaultAtom]) -> None:
    facts = [
        StepFacts(
            index=i,
            name=step.name,
            after=step.after,
            with_=step.with_,
            has_duration=step.duration is not None,
            reversible=atoms[step.name].reversible,
            kind=atoms[step.name].kind,
        )
        for i, step in enumerate(scenario.faults)
    ]
    if issues := fault_issues(facts):
        raise ScenarioError([Problem(scenario.name, 0, 0, i.message, i.remedy) for i in issues])


def _place(
    step: FaultStep,
    by_name: Mapping[str, FaultStep],
    atoms: Mapping[str, FaultAtom],
    recovery_s: float,
    planned: dict[str, Step],
) -> Step:
    """Plan a step, and first what it refers to (there is no cycle: that was checked)."""
    if step.name in planned:
        return planned[step.name]
    inject = step.at or 0.0  # without at, after or with: when the baseline ends
    if step.after is not None:
        name = step.after.removesuffix(".revert")
        before = _place(by_name[name], by_name, atoms, recovery_s, planned)
        inject = before.recovery_begin_s if step.after.endswith(".revert") else before.recovery_end_s
    elif step.with_ is not None:
        inject = _place(by_name[step.with_], by_name, atoms, recovery_s, planned).inject_s
    revert = None if step.duration is None else inject + step.duration
    end = (inject if revert is None else revert) + recovery_s
    planned[step.name] = Step(step.name, atoms[step.name], inject, revert, end)
    return planned[step.name]


def _with_measured(step: Step, planned: Mapping[str, Step], by_name: Mapping[str, FaultStep]) -> Step:
    """Mark a recovery that another fault disturbs: what it shows is not this fault's recovery."""
    why = "phases.recovery is 0" if step.recovery_end_s <= step.recovery_begin_s else ""
    order = list(by_name)
    for other in planned.values():
        if other.name == step.name:
            continue
        later_undone = order.index(other.name) < order.index(step.name)  # last in, first out
        if other.revert_s is not None and other.revert_s == step.revert_s and later_undone:
            why = f"{other.name} is reverted together with it"
        elif by_name[other.name].after == f"{step.name}.revert":
            why = f"{other.name} starts as soon as {step.name} is reverted"
        elif step.recovery_begin_s <= other.inject_s < step.recovery_end_s:
            why = f"{other.name} starts within it"
        elif other.inject_s < step.recovery_begin_s < (other.revert_s or other.inject_s):
            why = f"{other.name} still acts in it"
        if why:
            return replace(step, recovery_measured=False, unmeasured_because=why)
    return replace(step, recovery_measured=not why, unmeasured_because=why)


def _segment_spans(steps: tuple[Step, ...]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Pieces as segments.SegmentMap will see them: faults, else the recovery reverted last."""
    names = [s.name for s in steps] + [f"{s.name}.recovery" for s in steps if s.recovery_measured]
    pieces: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    edges = {t for s in steps for t in (s.inject_s, s.recovery_begin_s, s.recovery_end_s)}
    for begin, end in pairwise(sorted(edges)):
        acting = [s for s in steps if s.inject_s <= begin < (s.revert_s or s.inject_s)]
        watched = [s for s in steps if s.recovery_begin_s <= begin < s.recovery_end_s]
        for step in acting:
            pieces[step.name].append((begin, end))
        if not acting and watched:
            last = max(watched, key=lambda s: s.recovery_begin_s)
            if last.recovery_measured:
                pieces[f"{last.name}.recovery"].append((begin, end))
    return {name: tuple(found) for name, found in pieces.items()}


def _events(steps: tuple[Step, ...]) -> tuple[TimelineEvent, ...]:
    keyed: list[tuple[tuple[float, int, int], TimelineEvent]] = []
    for number, step in enumerate(steps):
        due: list[tuple[Action, float]] = [
            ("inject", step.inject_s),
            ("recovery_end", step.recovery_end_s),
        ]
        if step.revert_s is not None:
            due.append(("revert", step.revert_s))
        for action, at_s in due:
            place = -number if action == "revert" else number  # last in, first out
            keyed.append(((at_s, _ACTION_ORDER.index(action), place), TimelineEvent(at_s, action, step.name)))
    return tuple(event for _, event in sorted(keyed, key=lambda pair: pair[0]))


def conflicts(timeline: Timeline, host: Host) -> list[Issue]:
    """Faults that act at the same time on one resource and do not compose. Reads only.

    ``Loaded.problems`` gives the issues file, line and column.
    """
    issues: list[Issue] = []
    for (_, one), (index, two) in combinations(enumerate(timeline.steps), 2):
        shared = clash(one.atom, two.atom, host)
        if not shared or not _overlap(one, two):
            continue
        issues.append(
            Issue(
                ("faults", index),
                f"{two.name} and {one.name} would act on {', '.join(shared)} at the same time",
                f"write 'after: {one.name}' in {two.name}",
            )
        )
    return issues


def clash(one: FaultAtom, two: FaultAtom, host: Host) -> list[str]:
    """What two faults may not act on at the same time; empty where they get along. Reads only."""
    if one.composes and two.composes:
        return []
    return sorted(one.resource(host) & two.resource(host))


def _overlap(one: Step, two: Step) -> bool:
    if one.revert_s is None and two.revert_s is None:
        return one.inject_s == two.inject_s
    if one.revert_s is None:
        assert two.revert_s is not None
        return two.inject_s <= one.inject_s < two.revert_s
    if two.revert_s is None:
        return one.inject_s <= two.inject_s < one.revert_s
    return one.inject_s < two.revert_s and two.inject_s < one.revert_s
