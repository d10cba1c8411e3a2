"""The section at the end of a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """\
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":  # as the plugin leaves it there; nothing is run here
        report.chaosflow = [
            {"run_id": item.name, "state": "pass", "reason": "", "report": "runs/x/report.html", "simulated": []}
        ]
    return report
"""


@pytest.mark.slow
def test_state_and_test_stand_in_one_line_where_all_is_green(tmp_path: Path) -> None:
    """The first run's state ended its line, and its test began the next, unless a failure had been shown before."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("test_a", "test_b"):
        assert f"✓ pass         test_it.py::{name}\n" in done.stdout, done.stdout
