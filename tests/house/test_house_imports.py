"""Imports go downward only, need no privilege or device, and keep gevent out of our own processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = ("faults", "probes", "engine", "reports", "scenarios")

IMPORT_ALL = """\
import ctypes, importlib, pkgutil, sys, warnings
warnings.simplefilter("error")
for absent in ("bcc", "torch", "vllm"):
    sys.modules[absent] = None
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # <linux/capability.h>: version 3, this process
if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
    sys.exit("capabilities could not be dropped")
import chaosflow
only_load = sys.argv[1] == "load"
names = [
    m.name
    for m in pkgutil.walk_packages(chaosflow.__path__, "chaosflow.")
    if m.name.startswith("chaosflow.load") is only_load and not m.name.endswith("__main__")
]
if only_load:
    warnings.simplefilter("default")  # Locust's own
    import locust
for name in names:
    importlib.import_module(name)
print(len(names), "gevent" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", ["load", "all else"])
def test_every_module_imports_without_privilege_device_or_bcc(part: str) -> None:
    command = [sys.executable, "-c", IMPORT_ALL, part]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    count, has_gevent = done.stdout.split()
    assert int(count) > (3 if part == "load" else 50)
    assert (has_gevent == "True") is (part == "load")


@pytest.mark.slow
def test_gevent_is_not_in_the_process_of_a_run_nor_of_pytest(tmp_path: Path) -> None:
    """Its patched sockets and threads would reach into whatever else runs there."""
    test = tmp_path / "test_it.py"
    test.write_text(
        "import sys\nimport chaosflow.cli.app, chaosflow.orchestrator.run\n\n"
        "def test_it():\n    assert not {'gevent', 'locust'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is missing: pip install -e '.[dev]'")
    command = [str(linter), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_layers_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_layers_are_seen_through_the_links(tmp_path: Path) -> None:
    """A linter that did not follow the links would keep every contract for want of modules."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("chaosflow", *LINKED):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignore)
    (tmp_path / "faults" / "wrong.py").write_text("import chaosflow.probes.host\n")
    (tmp_path / "reports" / "wrong.py").write_text("import chaosflow.cli\n")
    done = lint(tmp_path)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "chaosflow.faults.wrong -> chaosflow.probes.host" in said
    assert "chaosflow.reports.wrong -> chaosflow.cli" in said
