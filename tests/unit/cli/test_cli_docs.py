"""What README and docs/ tell a newcomer to type is accepted as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaosflow.orchestrator.prepare import prepare
from chaosflow.orchestrator.suite import load_suite
from chaosflow.orchestrator.sweep_plan import plan_sweep

TOP = Path(__file__).parents[3]


def yaml_of(page: str) -> str:
    """The first whole file that a page shows."""
    return re.findall(r"```yaml\n(version: 1\n.*?)```", (TOP / page).read_text(), re.DOTALL)[0]


def sweeps(page: str) -> list[str]:
    """The values of every ``sweep … --set PATH=VALUES`` with a whole path."""
    return re.findall(r"sweep [\w.-]+ --set (faults\.[\w.]+=[\w.,*:]+)", (TOP / page).read_text())


def test_the_scenario_of_the_readme_is_valid_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "full.yaml").write_text(yaml_of("README.md"))
    assert not prepare(str(tmp_path / "full.yaml"), []).warnings


@pytest.mark.parametrize("page", ["README.md", "docs/sweep.md"])
def test_the_sweep_of_a_page_runs_on_the_scenarios_that_it_names(page: str, tmp_path: Path) -> None:
    """It began with a delay below the jitter of both, which is refused."""
    (tmp_path / "full.yaml").write_text(yaml_of("README.md"))
    assert sweeps(page)
    for values in sweeps(page):
        for scenario in (str(tmp_path / "full.yaml"), "quickstart"):
            assert len(plan_sweep(scenario, [values]).points) == 4


def test_the_suite_of_the_nightly_page_is_valid(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(yaml_of("docs/nightly.md"))
    assert load_suite(tmp_path / "suite.yaml").prepared
