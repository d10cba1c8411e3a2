"""A suite file: every problem at once, each with its line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError
from chaosflow.orchestrator.prepare import prepare
from chaosflow.orchestrator.suite import load_suite

SCENARIO = """\
name: small
target: {engine: {backend: sim}}
load: {arrival: {kind: constant, rate_per_s: 5}}
sla: {objectives: ["error_rate <= 50%"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return tmp_path


def problems(folder: Path, text: str) -> list[str]:
    (folder / "suite.yaml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load_suite(folder / "suite.yaml")
    return [str(p).removeprefix(f"{folder}/") for p in caught.value.problems]


def test_files_beside_the_suite_and_shipped_names_with_overrides(folder: Path) -> None:
    (folder / "suite.yaml").write_text(
        "version: 1\nscenarios:\n  - run: small.yaml\n    set: [load.arrival.rate_per_s=7]\n  - {run: quickstart}\n"
        "min_effect: 15%\nkeep: 180d\nannotations:\n  - {date: 2026-11-03, text: new model}\n"
    )
    loaded = load_suite(folder / "suite.yaml")
    assert loaded.names == ("small", "quickstart")
    assert loaded.prepared[0].loaded.scenario.load.arrival.rate_per_s == 7  # type: ignore[union-attr]
    assert loaded.suite.policy().min_effect == 0.15
    assert loaded.suite.annotations[0].date.isoformat() == "2026-11-03"
    assert loaded.again(0).loaded.scenario == loaded.prepared[0].loaded.scenario


def test_every_problem_is_told_at_once_with_its_line(folder: Path) -> None:
    found = problems(
        folder,
        "version: 1\nscenaris: []\nrepeat: many\nmetrics: [ttft_p96_ms]\nannotations:\n  - {date: yesterday, text: x}\n",
    )
    text = "\n".join(found)
    assert "suite.yaml:2:1: unknown key 'scenaris'; did you mean 'scenarios'?" in text
    assert "suite.yaml:3:" in text
    assert "unknown metric 'ttft_p96_ms'; did you mean 'ttft_p9" in text
    assert "suite.yaml:6:" in text
    assert len(found) >= 4


def test_problems_of_its_scenarios_stand_in_their_own_files(folder: Path) -> None:
    (folder / "bad.yaml").write_text(SCENARIO.replace("rate_per_s: 5", "rate_per_s: -5"))
    found = problems(
        folder,
        "scenarios:\n  - run: bad.yaml\n  - run: smal.yaml\n  - run: small.yaml\n    set: [loda.x=1]\n",
    )
    assert any(p.startswith("suite.yaml:2:10: scenario 'bad.yaml' has 1 problem") for p in found)
    assert any(p.startswith("bad.yaml:3:") for p in found)
    assert any("smal.yaml" in p and "no such file" in p for p in found)
    assert any("--set loda.x=1" in p for p in found)


def test_what_is_wrong_elsewhere_hides_no_problem_of_a_scenario(folder: Path) -> None:
    found = problems(
        folder,
        "scenarios:\n  - run: smal.yaml\n  - 7\n  - run: small.yaml\n  - run: small.yaml\n"
        "metrics: [ttft_p96_ms]\nmin_effect: 0\nkeep: 0s\n",
    )
    text = "\n".join(found)
    for told in (
        "suite.yaml:2:10: scenario 'smal.yaml' has 1 problem",
        "suite.yaml:3:",
        "suite.yaml:5:10: scenario 'small' stands twice",
        "unknown metric 'ttft_p96_ms'",
        "suite.yaml:7:13: min_effect must be above 0",
        "suite.yaml:8:7: keep must be above 0",
    ):
        assert told in text, (told, text)


def test_one_name_twice_would_be_one_history(folder: Path) -> None:
    (found,) = problems(folder, "scenarios:\n  - run: small.yaml\n  - run: small.yaml\n")
    assert found.startswith("suite.yaml:3:10: scenario 'small' stands twice")


@pytest.mark.parametrize(
    "text", ["", "- small.yaml\n", "scenarios: []\n", "scenarios: [{run: small.yaml}]\nmin_effect: 0\n"]
)
def test_what_is_no_suite_is_refused(folder: Path, text: str) -> None:
    assert problems(folder, text)


def test_suite_and_scenario_taken_for_each_other_are_told_apart(folder: Path) -> None:
    """Seven unknown keys did not say that the wrong kind of file was named."""
    (told,) = problems(folder, SCENARIO)
    assert "this is a scenario, not a suite" in told
    assert "scenarios: [{run: suite.yaml}]" in told
    (folder / "suite.yaml").write_text("version: 1\nscenarios:\n  - run: small.yaml\n")
    with pytest.raises(
        ScenarioError, match=r"this is a suite, not a scenario; chaosflow nightly .*suite\.yaml"
    ):
        prepare(str(folder / "suite.yaml"), [])
