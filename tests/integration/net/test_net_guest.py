"""Runs everything marked ``guest`` where netem is: here if this kernel has it, else in one guest kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from net_rig import needs_root
from told import tell

from chaosflow.faults._net.abilities import abilities

ROOT = Path(__file__).parents[3]
VM_RUN = ROOT / "tests" / "vm" / "vm-run"
ATOMS = [
    "-m",
    "not full",
    "-k",
    "guest or net.",
    "tests/guest",
    "tests/contract",
    "tests/integration/net/test_net_steps.py",
    "tests/integration/net/test_net_fuzz.py",
]
SCENARIOS = ["-m", "full", "tests/guest"]


pytestmark = [*needs_root, pytest.mark.slow, pytest.mark.timeout(1600)]


def test_the_netem_suite_on_a_kernel_that_has_netem() -> None:
    _run(ATOMS)


@pytest.mark.full
def test_whole_scenarios_on_a_kernel_that_has_netem() -> None:
    _run(SCENARIOS)


def _run(selection: list[str]) -> None:
    if os.environ.get("VM_RUN"):
        pytest.skip("this is the guest")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection]
    if not abilities().netem:
        _set_up()
        command = [sys.executable, str(VM_RUN), "--timeout", "1500", "--", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1550)
    for line in done.stdout.partition(" used and measured ")[2].splitlines()[1:]:
        if line.startswith("=") or not line:
            break
        tell(line if "(kernel " in line else f"netem suite: {line}")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def _set_up() -> None:
    for program, package in (("busybox", "busybox-static"), ("apt-get", "apt"), ("tc", "iproute2")):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install {package}")
    done = subprocess.run(
        [sys.executable, str(VM_RUN), "--setup"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"vm-run --setup: {done.stdout}{done.stderr}"
