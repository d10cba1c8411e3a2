"""Shipped scenarios of network faults against the included engine, shortened by ``--set``.

Whole runs of the real command: the faults are seen in effect in the segments that are theirs, and nothing is
left. tests/full runs these and the others at full length.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "targets"))

from shipped_run import run_shipped
from target_run import FinishedRun

pytestmark = pytest.mark.slow
_unprivileged = pytest.mark.skipif(os.geteuid() != 0, reason="net.* needs root: qdiscs, filters, nft tables")
LENIENT = "['e2e.p50 <= 9s during baseline', 'error_rate <= 60% during baseline']"
SHORT: dict[str, Any] = {
    "phases": "{warmup: 500ms, baseline: 2s, recovery: 1s}",
    "sla": f"{{window: 5s, objectives: {LENIENT}}}",
    "probes": "[]",
}


def _run(name: str, folder: Path, **changes: Any) -> FinishedRun:
    """It passed, every fault of it was confirmed and undone, and nothing is left."""
    run, left = run_shipped(name, SHORT | changes, folder)
    assert run.exit_code == 0, run.explain()
    assert not left, left
    for fault in run.result.faults:
        assert fault.confirmed, f"{fault.name}: {fault.evidence} {fault.error}\n{run.explain()}"
        assert fault.reverted, run.explain()
        assert fault.evidence, fault.name
    return run


@pytest.mark.root
@_unprivileged
def test_slow_lossy_client(tmp_path: Path) -> None:
    """The narrow line makes tokens wait; the lossy one makes TCP send again; both end with their revert."""
    run = _run(
        "slow-lossy-client",
        tmp_path,
        **{
            "faults.narrow-line.duration": "3s",
            "faults.narrow-line.params.rate_mbit_per_s": 0.9,  # less than the load needs: it must show in 3 s
            "faults.lossy-line.duration": "2s",
            "faults.lossy-line.params.percent": 10,
        },
    )
    before = run.segment("baseline")
    assert (run.segment("narrow-line").e2e.p50_ms or 0) > (before.e2e.p50_ms or 0) + 50, run.explain()
    assert " waits" in run.fault("narrow-line").evidence
    assert (run.segment("lossy-line").gap.max_ms or 0) > 100, run.explain()
    assert "sent again" in run.fault("lossy-line").evidence
    assert sum(segment.failed for segment in run.result.segments) == 0, run.explain()


@pytest.mark.root
@_unprivileged
def test_partition_and_heal(tmp_path: Path) -> None:
    """Streams frozen by the cut go on after it; streams and connections of the reset storm are lost at once."""
    run = _run(
        "partition-and-heal",
        tmp_path,
        # what TCP sends again within 1 s of the cut's end is through before the resets begin
        **{"faults.cut.duration": "1s", "faults.resets.duration": "1s", "phases.recovery": "1500ms"},
    )
    cut, resets = run.segment("cut"), run.segment("resets")
    assert cut.failed == 0, run.explain()
    assert (cut.e2e.max_ms or 0) > 700, "somebody waited for most of the cut"
    assert resets.failed >= 5, run.explain()
    assert resets.outcomes.get("connect", 0) >= 3, "new connections are refused"
    ended = [r["outcome"] for r in run.records() if r["sched_us"] < 1e6 * (0.5 + resets.end_s)]
    assert "reset" in ended, "streams under way are reset"
    assert "cancelled" not in ended, "a client that only waited has never heard of the reset"
    in_edges = sum(s.failed for s in run.result.segments if s.kind == "edge")
    assert resets.failed + in_edges == sum(s.failed for s in run.result.segments), "each is in a row"
    recovery = run.fault("resets").recovery
    assert recovery, run.explain()
    assert recovery.requests_lost == resets.failed + in_edges, "those of the injection too"
    assert run.segment("baseline").failed == run.segment("resets.recovery").failed == 0, run.explain()
