"""YAML -> Scenario: every problem at once, each with file, line and column, cause and remedy."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from chaosflow.core.checks import Issue, StepFacts, fault_issues, objective_issues
from chaosflow.core.environment import Secrets, substitute
from chaosflow.core.errors import Problem, ScenarioError, UsageError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.grammar import parse_objective
from chaosflow.core.override import apply_overrides
from chaosflow.core.registry import Registry
from chaosflow.core.scenario import MAX_ITEMS, FaultStep, Scenario
from chaosflow.core.slo import Objective
from chaosflow.core.source import find_scenario, read_text
from chaosflow.core.units import did_you_mean, parse_duration_s
from chaosflow.core.validation import validate
from chaosflow.core.yamltree import Document, Path, parse_yaml

ENV: Mapping[str, str] = os.environ


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid scenario, its fault atoms, and what may not be shown of it."""

    scenario: Scenario
    """Fault types are canonical (no aliases); ``params`` are complete, defaults included."""
    atoms: dict[str, FaultAtom]
    """Fault name -> atom with its params."""
    secrets: frozenset[str]
    """Values that no artifact may hold anywhere (those of 6 characters or more)."""
    path: FilePath
    text: str
    """The file as it stands; write it anywhere only through ``hide``."""
    _document: Document
    _hidden: Secrets

    def redacted(self) -> dict[str, Any]:
        """The resolved scenario as plain data, secret fields and values replaced by ``***``."""
        data = self.scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
        hidden: dict[str, Any] = self._hidden.hide_all(data)
        return hidden

    def hide(self, text: str) -> str:
        """``text`` with every secret value of 6 characters or more replaced by ``***``."""
        return self._hidden.hide(text)

    def problems(self, issues: Sequence[Issue]) -> list[Problem]:
        """Issues found later (timeline, guards) with file, line and column."""
        return [self._document.place(i.path).problem(i.message, i.remedy) for i in issues]


def load_scenario(
    source: FilePath | str,
    *,
    atoms: Registry[FaultAtom],
    shipped: FilePath,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] = ENV,
    known_values: Mapping[str, Collection[str]] | None = None,
) -> Loaded:
    """Load a scenario file, or a shipped one by its bare name (``quickstart``).

    ``known_values``: what a field may say where only higher floors know it, by dotted path
    (``{"probes": [...], "target.engine.gpu": [...]}``). Reads files and ``env`` only; does not ask
    whether anything can work on this machine.

    Raises ScenarioError with all problems.
    """
    path = find_scenario(source, shipped)
    text = read_text(path)
    document = parse_yaml(text, str(path))
    if document.data is None and document.problems:
        raise ScenarioError(document.problems)
    apply_overrides(document, overrides)
    _require_scenario(document, path)
    secrets = substitute(document, env)
    _move_duration_sec(document, secrets)
    kinds = _resolve_types(document, atoms)
    scenario, whole = validate(document, (), Scenario, secrets)
    params = _validate_params(document, kinds, secrets)
    _report(document, _fit_issues(document, kinds))
    _report(document, _value_issues(document, known_values or {}))
    if not document.problems and scenario is None:
        _report(document, whole)
    if document.problems or scenario is None:
        raise ScenarioError([_hidden(p, secrets) for p in _in_order(document.problems)])
    return _loaded(scenario, params, path, text, document, secrets)


def _require_scenario(document: Document, path: FilePath) -> None:
    """Raises ScenarioError where the file is something else altogether: every further message would mislead."""
    if not isinstance(document.data, dict):
        document.report(
            (), "a scenario is a mapping of keys", "begin with 'version: 1', 'target:', 'load:', 'sla:'"
        )
        raise ScenarioError(document.problems)
    if "scenarios" in document.data and "target" not in document.data:
        document.report((), "this is a suite, not a scenario", f"chaosflow nightly {path} runs it")
        raise ScenarioError(document.problems)


def _loaded(
    scenario: Scenario,
    params: dict[int, FaultAtom],
    path: FilePath,
    text: str,
    document: Document,
    secrets: Secrets,
) -> Loaded:
    steps: list[FaultStep] = []
    for index, step in enumerate(scenario.faults):
        atom = params[index]
        full = atom.model_dump(mode="json", by_alias=True, exclude_none=True)
        steps.append(step.model_copy(update={"params": full}))
    return Loaded(
        scenario=scenario.model_copy(update={"faults": steps}),
        atoms={step.name: params[i] for i, step in enumerate(scenario.faults)},
        secrets=secrets.free_text(),
        path=path,
        text=text,
        _document=document,
        _hidden=secrets,
    )


def _hidden(problem: Problem, secrets: Secrets) -> Problem:
    file, message = secrets.hide(problem.file), secrets.hide(problem.message)
    return Problem(file, problem.line, problem.column, message, secrets.hide(problem.remedy))


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: (p.line == 0, p.line, p.column))


def _report(document: Document, issues: Sequence[Issue]) -> None:
    for issue in issues:
        at_key = any(isinstance(v, dict) for v in _values_at(document, issue.path))
        document.report(issue.path, issue.message, issue.remedy, at_key=at_key)


def _values_at(document: Document, path: Path) -> list[Any]:
    try:
        return [document.get(path)]
    except (KeyError, IndexError, TypeError):
        return []


def _raw_faults(document: Document) -> list[tuple[int, dict[str, Any]]]:
    faults = document.data.get("faults")
    items = faults if isinstance(faults, list) else []
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)]


def _move_duration_sec(document: Document, secrets: Secrets) -> None:
    """``duration_sec`` inside ``params`` is another spelling of ``duration``."""
    for index, fault in _raw_faults(document):
        params = fault.get("params")
        if not isinstance(params, dict) or "duration_sec" not in params:
            continue
        old: Path = ("faults", index, "params", "duration_sec")
        new: Path = ("faults", index, "duration")
        if "duration" in fault:
            document.report(old, "'duration' and 'duration_sec' are both given", "keep one of them")
            del params["duration_sec"]
            continue
        fault["duration"] = params.pop("duration_sec")
        document.keys[new], document.values[new] = document.place(old, at_key=True), document.place(old)
        secrets.move(old, new)


def _resolve_types(document: Document, atoms: Registry[FaultAtom]) -> dict[int, type[FaultAtom]]:
    """The atom class of each fault; its ``type`` is replaced by the canonical kind."""
    kinds: dict[int, type[FaultAtom]] = {}
    for index, fault in _raw_faults(document):
        if not isinstance(name := fault.get("type"), str):
            continue
        try:
            kinds[index] = atoms.get(name)
        except UsageError as e:
            document.report(("faults", index, "type"), f"unknown fault type {name!r}", e.remedy)
        else:
            fault["type"] = kinds[index].kind
    return kinds


def _validate_params(
    document: Document, kinds: dict[int, type[FaultAtom]], secrets: Secrets
) -> dict[int, FaultAtom]:
    found: dict[int, FaultAtom] = {}
    for index, fault in _raw_faults(document):
        if index not in kinds or not isinstance(fault.setdefault("params", {}), dict):
            continue
        base: Path = ("faults", index, "params")
        atom, whole = validate(document, base, kinds[index], secrets)
        _report(document, whole)
        if atom is not None:
            found[index] = atom
    return found


def _fit_issues(document: Document, kinds: dict[int, type[FaultAtom]]) -> list[Issue]:
    steps = [_facts(i, fault, kinds.get(i)) for i, fault in _raw_faults(document)]
    if len(steps) > MAX_ITEMS:
        return []  # refused anyhow, and here each would be compared with each
    sla, phases = document.data.get("sla"), document.data.get("phases")
    lines = sla.get("objectives") if isinstance(sla, dict) else None
    objectives = [
        (i, parsed)
        for i, text in enumerate(lines if isinstance(lines, list) else [])
        if isinstance(text, str) and (parsed := _parsed(text))
    ]
    recovery = phases.get("recovery", 1) if isinstance(phases, dict) else 1
    probes = document.data.get("probes", Scenario.model_fields["probes"].default)
    known = [p for p in probes if isinstance(p, str)] if isinstance(probes, list) else None
    return [*fault_issues(steps), *objective_issues(objectives, steps, _seconds(recovery), known)]


def _facts(index: int, fault: dict[str, Any], kind: type[FaultAtom] | None) -> StepFacts:
    def text(key: str) -> str | None:
        return value if isinstance(value := fault.get(key), str) else None

    return StepFacts(
        index=index,
        name=text("name") or f"fault {index}",
        after=text("after"),
        with_=text("with") if fault.get("after") is None else None,
        has_duration=fault.get("duration") is not None,
        reversible=kind.reversible if kind else None,
        kind=kind.kind if kind else "",
    )


def _parsed(text: str) -> Objective | None:
    try:
        return parse_objective(text)
    except ValueError:
        return None  # already reported with its place


def _seconds(value: Any) -> float | None:
    try:
        return parse_duration_s(value)
    except (ValueError, AttributeError):
        return None


def _value_issues(document: Document, known_values: Mapping[str, Collection[str]]) -> list[Issue]:
    issues: list[Issue] = []
    for dotted, known in known_values.items():
        path: Path = tuple(dotted.split("."))
        try:
            value = document.get(path)
        except (KeyError, TypeError, IndexError):
            continue
        items = [((*path, i), v) for i, v in enumerate(value)] if isinstance(value, list) else [(path, value)]
        for where, item in items:
            if isinstance(item, str) and item not in known:
                hint = did_you_mean(item, known) or f"known: {', '.join(sorted(known))}"
                issues.append(Issue(where, f"{path[-1]}: unknown {item!r}", hint))
    return issues
