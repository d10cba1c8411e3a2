"""docs/faults.md is what the atoms say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.fault import FaultAtom
from chaosflow.faults import docs
from chaosflow.orchestrator.catalogue import load_atoms

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text() == docs.page(), "run: python -m chaosflow.faults.docs > docs/faults.md"


@pytest.mark.parametrize("kind", load_atoms().names())
def test_an_atom_says_what_it_acts_on_and_requires(kind: str) -> None:
    atom: type[FaultAtom] = load_atoms().get(kind)
    for name in ("acts_on", "requires") if not atom.needs_proxy else ("acts_on",):
        assert len(getattr(atom, name)) > 5, f"{kind} has no {name}"


def test_a_row_has_every_range_default_and_unit() -> None:
    row = next(line for line in docs.page().splitlines() if line.startswith("| `host.io_stress`"))
    assert "`block_kib` >= 4, <= 16384, a multiple of 4 (default 64): Of each operation" in row
    assert "`mode` read \\| write \\| both (default both)" in row
    assert "`mib_per_s` > 0, <= 1048576 (optional)" in row
    assert "resource `disk:/var/tmp`, composes" in row
    assert row.count(" | ") == 5


def test_a_required_parameter_shows_no_default() -> None:
    row = next(line for line in docs.page().splitlines() if line.startswith("| `host.cpu_stress`"))
    assert "`workers` >= 1, <= 1024:" in row
