"""A nightly's suite: which scenarios with which overrides, and what counts as a change. YAML -> Suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from chaosflow import scenarios_dir
from chaosflow.core.environment import Secrets
from chaosflow.core.errors import Problem, ScenarioError
from chaosflow.core.fields import Model, Seconds, Share
from chaosflow.core.source import find_scenario, read_text
from chaosflow.core.units import counted, did_you_mean
from chaosflow.core.validation import validate
from chaosflow.core.yamltree import Document, Path, parse_yaml
from chaosflow.orchestrator.prepare import Prepared, prepare
from chaosflow.reports.history.judge import Policy
from chaosflow.reports.history.metrics import JUDGED, METRICS
from chaosflow.reports.history.report import Annotation


def _known_metric(name: str) -> str:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS) or f"known: {', '.join(METRICS)}"
        raise ValueError(f"unknown metric {name!r}; {hint}")
    return name


MetricName = Annotated[str, AfterValidator(_known_metric)]


class SuiteEntry(Model):
    """One scenario of the suite."""

    run: str
    """A file, relative to the suite's own folder, or the bare name of a shipped scenario."""
    set_: list[str] = Field([], alias="set")
    """Overrides as for ``--set``: ``load.arrival.rate_per_s=40``."""


class Suite(Model):
    """What a suite file says."""

    version: Literal[1] = 1
    scenarios: list[SuiteEntry] = Field(min_length=1)
    repeat: int = Field(2, ge=0, le=20)
    """How often a suspect is run again: a run that did not pass, or numbers that look changed."""
    min_effect: Share = Field(0.1, gt=0)
    """The least change worth a word, of times and rates; a share of requests must change by 1 point."""
    metrics: list[MetricName] = Field(list(JUDGED), min_length=1)
    annotations: list[Annotation] = Field([])
    keep: Seconds | None = Field(None, gt=0)
    """Runs that began longer ago than this are forgotten by the history; their folders stay."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        for note in self.annotations:
            if note.metric is not None:
                _known_metric(note.metric)
        return self

    def policy(self) -> Policy:
        return Policy(
            min_effect=self.min_effect, metrics=tuple(self.metrics), annotations=tuple(self.annotations)
        )


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A valid suite; every scenario of it was loaded and checked."""

    suite: Suite
    path: FilePath
    prepared: tuple[Prepared, ...]
    """In the order of ``suite.scenarios``."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.loaded.scenario.name for p in self.prepared)

    def again(self, index: int) -> Prepared:
        """That scenario anew, for one more run."""
        return _prepare(self.path, self.suite.scenarios[index])


def load_suite(path: FilePath) -> LoadedSuite:
    """Read and check a suite and every scenario it names. Runs nothing.

    Raises ScenarioError with all problems at once, each with file, line and column.
    """
    document = parse_yaml(read_text(find_scenario(path, path.parent)), str(path))
    if document.data is None and document.problems:
        raise ScenarioError(document.problems)
    if not isinstance(document.data, dict):
        document.report((), "a suite is a mapping of keys", "begin with 'version: 1' and 'scenarios:'")
        raise ScenarioError(document.problems)
    if "target" in document.data and "scenarios" not in document.data:
        document.report(
            (), "this is a scenario, not a suite", f"a suite lists it: 'scenarios: [{{run: {path.name}}}]'"
        )
        raise ScenarioError(document.problems)
    suite, whole = validate(document, (), Suite, Secrets())
    for issue in whole:
        document.report(issue.path, issue.message, issue.remedy)
    entries = suite.scenarios if suite else _readable(document.data)
    prepared, problems = _scenarios(document, path, entries)
    if suite is not None and not problems:
        _check_annotations(document, suite, [p.loaded.scenario.name for p in prepared])
    problems = sorted([*document.problems, *problems], key=lambda p: (p.line == 0, p.line, p.column))
    if problems or suite is None:
        raise ScenarioError(problems)
    return LoadedSuite(suite, path, tuple(prepared))


def _readable(data: Mapping[Any, Any]) -> list[SuiteEntry | None]:
    """The scenarios of a suite that is wrong elsewhere: what is wrong with them is told in the same breath."""
    listed = data.get("scenarios")
    found: list[SuiteEntry | None] = []
    for item in listed if isinstance(listed, list) else ():
        try:
            found.append(SuiteEntry.model_validate(item))
        except ValidationError:
            found.append(None)  # told of already
    return found


def _check_annotations(document: Document, suite: Suite, names: Sequence[str]) -> None:
    """A misspelt scenario would acknowledge nothing, and nobody would be told."""
    for index, note in enumerate(suite.annotations):
        if note.scenario is not None and note.scenario not in names:
            hint = did_you_mean(note.scenario, names) or f"there are: {', '.join(names)}"
            message = f"no scenario of this suite is named {note.scenario!r}"
            document.report(("annotations", index, "scenario"), message, hint)


def _scenarios(
    document: Document, path: FilePath, entries: Sequence[SuiteEntry | None]
) -> tuple[list[Prepared], list[Problem]]:
    found: list[Prepared] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry is None:
            continue
        where: Path = ("scenarios", index, "run")
        try:
            prepared = _prepare(path, entry)
        except ScenarioError as e:
            document.report(
                where, f"scenario {entry.run!r} has {counted(len(e.problems), 'problem')}", "see below"
            )
            problems += e.problems
            continue
        name = prepared.loaded.scenario.name
        if name in seen:
            document.report(
                where,
                f"scenario {name!r} stands twice (first as number {seen[name] + 1}): one history for both",
                f"give one another name: set: ['name={name}-2']",
            )
        seen.setdefault(name, index)
        found.append(prepared)
    return found, problems


def _prepare(suite: FilePath, entry: SuiteEntry) -> Prepared:
    beside = suite.parent / entry.run
    bare = find_scenario(beside if beside.is_file() else entry.run, scenarios_dir())
    return prepare(bare, entry.set_)
