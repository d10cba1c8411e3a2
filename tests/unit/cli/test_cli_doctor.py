"""``chaosflow doctor`` without a scenario: a row for every atom and probe there is, whatever this machine has."""

from __future__ import annotations

import subprocess
import sys

from chaosflow.orchestrator.catalogue import load_atoms, load_probes


def test_doctor_has_an_answer_for_every_kind() -> None:
    """A check that looked at a required parameter broke the whole table."""
    done = subprocess.run(
        [sys.executable, "-m", "chaosflow", "doctor"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split()
    missing = [a.kind for a in load_atoms() if a.kind not in words]
    missing += [p.name for p in load_probes() if p.name not in words]
    assert not missing, done.stdout
    assert ":80/" not in done.stdout, "a port that nobody named"
