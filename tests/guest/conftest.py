"""Tests that need a kernel with netem; ``tests/integration/net/test_net_guest.py`` runs them all in one guest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "net"))

from chaosflow.faults._net.abilities import abilities

IN_GUEST = bool(os.environ.get("VM_RUN"))


@pytest.fixture(autouse=True)
def _netem_is_here() -> None:
    """In the guest, and where netem is promised, its absence is a failure; elsewhere the guest does it."""
    if abilities().netem:
        return
    if IN_GUEST or os.environ.get("CHAOSFLOW_EXPECT_NETEM") == "1":
        pytest.fail("netem was promised here, and does not work")
    pytest.skip("no netem on this kernel: test_net_guest.py runs this in a guest kernel")
