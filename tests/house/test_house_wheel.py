"""The wheel holds only ``chaosflow``, and a user's own folders never shadow it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = ("faults", "probes", "engine", "reports")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without network: the build backend is one of the test dependencies."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert built.returncode == 0, built.stderr
    return next(out.glob("chaosflow-*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel: what a user's site-packages would get."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A user's repository with folders named as ours, each of which breaks when imported."""
    for name in (*LINKED, "tests", "scenarios", "bench", "core", "load"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the decoy {name} was imported')\n")
    return tmp_path


def run(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONWARNINGS": "error", "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_only_top_level_is_chaosflow(site: Path) -> None:
    tops = sorted(p.name for p in site.iterdir())
    assert [t for t in tops if not t.endswith(".dist-info")] == ["chaosflow"]
    for name in LINKED:
        assert (site / "chaosflow" / name / "__init__.py").is_file()
    assert (site / "chaosflow" / "scenarios" / "quickstart.yaml").is_file()
    assert not list(site.rglob("*.pyc"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "chaosflow", "validate", "quickstart"),
        ("-m", "chaosflow", "list", "faults"),
        ("-m", "chaosflow", "list", "scenarios"),
        ("-m", "chaosflow", "schema"),
        ("-m", "chaosflow.engine", "--list"),
        ("-m", "chaosflow.faults.proxy", "--help"),
    ],
    ids=lambda a: " ".join(a[1:]),
)
def test_command_runs_inside_a_decoy_repository(site: Path, decoy: Path, arguments: tuple[str, ...]) -> None:
    done = run(site, decoy, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "decoy" not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_unpacked_wheel_was_what_ran(site: Path, decoy: Path) -> None:
    done = run(site, decoy, "-c", "import chaosflow.faults; print(chaosflow.faults.__file__)")
    assert done.stdout.startswith(str(site))


@pytest.mark.parametrize("name", LINKED)
def test_linked_folder_refuses_its_bare_name(name: str) -> None:
    command = [sys.executable, "-c", f"import {name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert f"import chaosflow.{name}, not {name}" in done.stderr
