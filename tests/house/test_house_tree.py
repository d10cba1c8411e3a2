"""Small promises about the tree itself."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINKED = ("faults", "probes", "engine", "reports", "scenarios")


def test_linked_folders_are_relative_links() -> None:
    for name in LINKED:
        link = ROOT / "chaosflow" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"


def test_test_files_have_names_of_their_own() -> None:
    """Without __init__.py, pytest imports two files of one name as one module."""
    names = Counter(p.name for p in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_docs_that_errors_point_to_exist() -> None:
    for name in ("scenario", "faults", "probes", "exit-codes", "glossary", "result-schema"):
        assert (ROOT / "docs" / f"{name}.md").stat().st_size > 500


def test_exit_codes_are_documented() -> None:
    from chaosflow.core.errors import ExitCode

    text = (ROOT / "docs" / "exit-codes.md").read_text()
    for code in ExitCode:
        assert f"| {int(code)} |" in text


def test_every_metric_is_in_the_glossary() -> None:
    from chaosflow.core.slo import METRICS

    text = (ROOT / "docs" / "glossary.md").read_text()
    for metric in METRICS:
        assert f"**{metric}**" in text


def test_every_scenario_key_is_documented() -> None:
    from pydantic import BaseModel

    from chaosflow.core import scenario

    text = (ROOT / "docs" / "scenario.md").read_text()
    models = [m for m in vars(scenario).values() if isinstance(m, type) and issubclass(m, BaseModel)]
    for model in models:
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert f"`{key}`" in text, f"{model.__name__}.{key} is missing in docs/scenario.md"


def test_every_probe_is_documented() -> None:
    from chaosflow.orchestrator.catalogue import load_probes

    text = (ROOT / "docs" / "probes.md").read_text()
    for name in load_probes().names():
        assert f"`{name}`" in text
