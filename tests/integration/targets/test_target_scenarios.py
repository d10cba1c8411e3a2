"""Shipped scenarios against llama.cpp's server by ``--set target.url=…``, shortened; tests/full has them whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from llamacpp import llamacpp_server
from shipped_run import run_shipped
from target_process import TargetProcess
from target_run import assert_left_alone
from tiny_model import TinyModel

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {
    "load.arrival.rate_per_s": 8,
    "load.output_tokens": 8,
    "phases": "{warmup: 500ms, baseline: 2s, recovery: 2s}",
    "sla": "{window: 5s, objectives: ['e2e.p50 <= 9s during baseline', 'error_rate <= 60% during baseline']}",
    "probes": "[]",
}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="net.* needs root: filters, nft tables")
def test_partition_and_heal_on_a_users_own_server(llamacpp: TargetProcess, tmp_path: Path) -> None:
    """On the machine's own loopback: the server's port alone is cut off, and nothing is left there."""
    changes = {"target.url": llamacpp.url, "faults.cut.duration": "2s", "faults.resets.duration": "1s"}
    run, left = run_shipped("partition-and-heal", SHORT | changes, tmp_path)
    assert run.exit_code == 0, run.explain()
    assert not left, left
    assert all(fault.confirmed and fault.reverted for fault in run.result.faults), run.explain()
    # whoever the cut held up long enough met the resets too
    assert set(run.segment("cut").outcomes) <= {"ok", "reset", "connect"}, run.explain()
    assert (run.segment("cut").e2e.max_ms or 0) > 1200, "somebody waited for most of the cut"
    assert run.segment("resets").outcomes.get("connect", 0) >= 3, run.explain()
    assert run.segment("resets.recovery").failed == 0, run.explain()
    assert_left_alone(llamacpp)


def test_crash_loop_of_a_users_own_supervised_server(tiny_model: TinyModel, tmp_path: Path) -> None:
    """litmus-go 591: the target restarts under another pid in mid-fault, and is found again by its port."""
    with llamacpp_server(tiny_model, tmp_path, supervised=True) as target:
        changes = {
            "target.url": target.url,
            "target.process": f"{{listen_port: {target.port}}}",
            "faults.loop.duration": "5s",
            "faults.loop.params.alive_s": 0.3,
        }
        run, left = run_shipped("crash-loop", SHORT | changes, tmp_path)
        assert run.exit_code == 0, run.explain()
        assert not left, left
        assert run.fault("loop").confirmed, run.explain()
        assert int(run.fault("loop").evidence.split()[1]) >= 2, run.fault("loop").evidence
        assert run.segment("loop").failed > 5, run.explain()
        assert run.segment("loop.recovery").outcomes.get("ok", 0) > 5, run.explain()
