"""A suite's keys that would do harm without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError
from chaosflow.orchestrator.suite import load_suite


def _suite(top: Path, more: str) -> Path:
    path = top / "suite.yaml"
    path.write_text(f"version: 1\nscenarios: [{{run: quickstart}}]\n{more}\n")
    return path


def test_annotation_of_a_misspelt_scenario_is_refused(tmp_path: Path) -> None:
    path = _suite(tmp_path, "annotations:\n  - {date: 2026-11-03, scenario: quickstrat, text: x}")
    with pytest.raises(ScenarioError, match=r":4:.*quickstrat.*did you mean 'quickstart'"):
        load_suite(path)
    load_suite(_suite(tmp_path, "annotations:\n  - {date: 2026-11-03, scenario: quickstart, text: x}"))


def test_keeping_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="keep must be above 0"):
        load_suite(_suite(tmp_path, "keep: 0s"))
