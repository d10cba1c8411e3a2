"""The Makefile on a machine that lacks something says what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=clean, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def python_that(folder: Path, script: str) -> str:
    fake = folder / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    return f"PYTHON={fake}"


def test_help_names_every_target() -> None:
    shown = make(ROOT, "help").stdout
    for target in ("demo", "test", "test-full", "check", "bench", "bench-long"):
        assert f"make {target} " in shown


def test_missing_venv_names_the_package(bare: Path) -> None:
    """Debian's python3 has no ensurepip until python3-venv is installed."""
    python = python_that(bare, 'if [ "$2" = venv ]; then mkdir -p .venv/bin; exit 1; fi')
    done = make(bare, "demo", python)
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr
    assert not (bare / ".venv").exists()  # a half-made one would be taken for whole the next time


def test_old_python_is_named(bare: Path) -> None:
    done = make(bare, "demo", python_that(bare, "exit 1"))
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr


def test_demo_installs_the_base_only_and_runs_by_bare_name(bare: Path) -> None:
    plan = make(bare, "-n", "demo").stdout
    assert "install --editable .\n" in plan
    assert "[test,dev]" not in plan
    assert plan.rstrip().endswith(".venv/bin/chaosflow run quickstart")


def test_installation_is_renewed_when_pyproject_changes(bare: Path) -> None:
    venv = bare / ".venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("bin/python", ".installed-base", ".installed-full"):
        (venv / name).touch()
    assert "install" not in make(bare, "-n", "demo").stdout
    later = (venv / ".installed-base").stat().st_mtime + 10
    os.utime(bare / "pyproject.toml", (later, later))
    assert "install --editable ." in make(bare, "-n", "demo").stdout


def test_ci_promises_root_only_to_root() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert "make test" in text
    assert subprocess.run(["bash", "-n", script], timeout=10).returncode == 0
