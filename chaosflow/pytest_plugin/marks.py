"""The markers ``chaos`` and ``slo``: read, and checked while the suite is collected."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaosflow.pytest_plugin.load import LOAD_KEYWORDS, wanted_of
from chaosflow.pytest_plugin.options import Settings

if TYPE_CHECKING:
    from chaosflow.core.errors import ChaosflowError
    from chaosflow.orchestrator.prepare import Prepared

LINES = (
    "chaos(scenario, *, set=None, expect='pass'): run a scenario of ChaosFlow (a file, or a shipped one by its "
    "bare name) before the test's body; the test fails unless its verdict is as expected",
    "slo(*objectives, rate_per_s=20, prompt_tokens=64, output_tokens=16, warmup='1s', window='60s', seed=7, "
    "load=None): drive load while the test's body runs and judge these objectives on it; with the marker chaos, "
    "judge them on the scenario too",
)
FIXTURES = frozenset({"chaos_target", "chaos_run", "fault", "slo_checker"})

_CHAOS_KEYWORDS = ("set", "expect")
_EXPECTED = ("pass", "fail")


@dataclass(frozen=True, slots=True)
class ChaosMark:
    """What ``@pytest.mark.chaos`` asks for."""

    scenario: Path | str
    overrides: list[str]
    expect: str = "pass"


@dataclass(frozen=True, slots=True)
class SloMark:
    """What all ``@pytest.mark.slo`` of a test ask for together; of a keyword the nearest one counts."""

    objectives: list[str]
    keywords: dict[str, Any] = field(default_factory=dict)


def uses_chaos(item: pytest.Item) -> bool:
    """Whether a test asks for anything of ours."""
    names = getattr(item, "fixturenames", ())
    return bool(FIXTURES.intersection(names)) or _marked(item)


def _marked(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("chaos", "slo"))


def chaos_of(item: pytest.Item) -> ChaosMark | None:
    """Raises UsageError where the marker cannot be read."""
    mark = item.get_closest_marker("chaos")
    if mark is None:
        return None
    from chaosflow.core.errors import UsageError
    from chaosflow.orchestrator.byhand import refuse_unknown

    refuse_unknown("marker chaos", mark.kwargs, _CHAOS_KEYWORDS)
    if len(mark.args) != 1 or not isinstance(mark.args[0], str | Path):
        raise UsageError("marker chaos", "takes one scenario", "write @pytest.mark.chaos('my-scenario.yaml')")
    expect = mark.kwargs.get("expect", "pass")
    if expect not in _EXPECTED:
        raise UsageError("marker chaos", f"expect={expect!r}", f"write one of {', '.join(_EXPECTED)}")
    return ChaosMark(_find(item, mark.args[0]), _overrides(mark.kwargs.get("set")), expect)


def _find(item: pytest.Item, scenario: Path | str) -> Path | str:
    """Beside the test file, else below the suite's root; else a shipped scenario's name."""
    for folder in (item.path.parent, item.config.rootpath):
        if (folder / scenario).is_file():
            return folder / scenario
    return scenario


def _overrides(given: Any) -> list[str]:
    from chaosflow.core.errors import UsageError

    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise UsageError("marker chaos", "set is no mapping", "write set={'load.arrival.rate_per_s': 40}")
    return [f"{path}={json.dumps(value, default=str)}" for path, value in given.items()]


def slo_of(item: pytest.Item) -> SloMark | None:
    """Raises UsageError where a marker cannot be read."""
    marks = list(item.iter_markers("slo"))
    if not marks:
        return None
    from chaosflow.core.errors import UsageError
    from chaosflow.orchestrator.byhand import refuse_unknown

    objectives: dict[str, None] = {}
    keywords: dict[str, Any] = {}
    for mark in marks:  # the nearest first
        refuse_unknown("marker slo", mark.kwargs, LOAD_KEYWORDS)
        for text in mark.args:
            if not isinstance(text, str):
                raise UsageError("marker slo", f"{text!r} is no text", "write 'ttft.p95 <= 200ms', in quotes")
        objectives.update(dict.fromkeys(mark.args))
        keywords = {**mark.kwargs, **keywords}
    if not objectives:
        raise UsageError(
            "marker slo",
            "names no objective",
            "write @pytest.mark.slo('ttft.p95 <= 200ms', 'error_rate <= 1%')",
        )
    return SloMark(list(objectives), keywords)


def prepare(item: pytest.Item, settings: Settings, chaos: ChaosMark, slo: SloMark | None) -> Prepared:
    """The scenario of a test, pointed at the suite's target, with the marker's objectives. Raises ScenarioError."""
    from chaosflow.orchestrator.prepare import prepare, require_no_warnings

    overrides = [*settings.overrides(), *chaos.overrides]
    prepared = prepare(chaos.scenario, overrides)
    if slo is not None:
        both = dict.fromkeys([*prepared.loaded.scenario.sla.objectives, *slo.objectives])
        prepared = prepare(chaos.scenario, [*overrides, f"sla.objectives={json.dumps(list(both))}"])
    if settings.strict:
        require_no_warnings(prepared)
    return prepared


# -- while the suite is collected
def problems_of(item: pytest.Item, settings: Settings) -> Iterator[str]:
    """Everything wrong with a test's markers, each with file and line; reads scenarios, changes nothing."""
    from chaosflow.core.errors import ChaosflowError

    chaos = slo = None
    try:
        slo = slo_of(item)
        if slo is not None:
            _check_slo(slo, with_scenario=item.get_closest_marker("chaos") is not None)
    except ChaosflowError as e:
        yield f"{_place(item, 'slo')}: {e}"
        slo = None
    try:
        chaos = chaos_of(item)
        if chaos is not None:
            prepare(item, settings, chaos, slo)
        elif "chaos_run" in getattr(item, "fixturenames", ()):
            yield f"{_place(item, '')}: fixture chaos_run: there is no scenario; write @pytest.mark.chaos('…')"
    except ChaosflowError as e:
        if not _waits_for_environment(e):
            yield f"{_place(item, 'chaos')}: {e}"


def _check_slo(slo: SloMark, *, with_scenario: bool) -> None:
    from chaosflow.core.errors import UsageError
    from chaosflow.core.grammar import parse_objective

    for text in slo.objectives:
        try:
            parse_objective(text)
        except (ValueError, AttributeError, TypeError) as e:
            raise UsageError("marker slo", str(e)) from e
    if with_scenario and slo.keywords:
        raise UsageError(
            "marker slo", f"{', '.join(slo.keywords)}: the scenario of the marker chaos has its own load",
            "use set={…} of the marker chaos",
        )  # fmt: skip
    wanted_of("check", slo.objectives, slo.keywords)


def _waits_for_environment(error: ChaosflowError) -> bool:
    """A variable that is not set stops the test that needs it, and not the collection of all others."""
    problems = getattr(error, "problems", ())
    return bool(problems) and all("the environment variable" in p.message for p in problems)


def _place(item: pytest.Item, marker: str) -> str:
    """``tests/test_chat.py:12``, the line of the marker where it can be found, else of the test."""
    file, line, _ = item.location
    return f"{file}:{_decorator_line(item.path, (line or 0) + 1, marker) or (line or 0) + 1}"


def _decorator_line(path: Path, near: int, marker: str) -> int:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if first <= near <= node.lineno:
            names = {ast.unparse(d).split("(")[0].rsplit(".", 1)[-1]: d.lineno for d in node.decorator_list}
            return names.get(marker, node.lineno)
    return 0
