"""``chaosflow proxy``: what it cannot do as asked it refuses, before it listens anywhere."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_port_that_leads_nowhere_is_refused() -> None:
    """It was dropped in silence: the proxy ran, and nothing listened on the port that was named."""
    done = subprocess.run(
        [sys.executable, "-m", "chaosflow", "proxy", "--api", "127.0.0.1:0", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "say where to with --upstream" in done.stderr
