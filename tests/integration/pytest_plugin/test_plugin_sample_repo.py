"""A repository with folders named engine/, reports/ and tests/ of its own runs its suite as a CI would."""

from __future__ import annotations

import shutil

import pytest
from pytest_rig import SAMPLE, Suite

from chaosflow.reports.history.store import HISTORY_FILE, History

pytestmark = pytest.mark.slow

PROCESS = """\
import sys


def test_the_process_has_no_gevent():
    # its patched sockets and threads would reach into whatever else runs here
    assert not {"gevent", "locust"} & set(sys.modules)
    assert "chaosflow.orchestrator.run" in sys.modules
"""


def test_the_sample_repo_is_green_and_says_why(suite: Suite) -> None:
    ignore = shutil.ignore_patterns("chaos-runs", "__pycache__")
    shutil.copytree(SAMPLE, suite.top, dirs_exist_ok=True, ignore=ignore)
    suite.write("tests/test_z_process.py", PROCESS)
    done = suite.run()
    assert done.code == 0, done.text
    assert set(done.cases) == {
        "test_scenario", "test_timeline_in_the_body", "test_check_within_a_fault",
        "test_own_client_through_a_slow_service", "test_prompt", "test_headline", "test_the_process_has_no_gevent",
    }  # fmt: skip
    found = done.properties("test_timeline_in_the_body")
    assert found["chaosflow.state"] == "pass"
    for window in ("baseline", "slow-network", "slow-network.recovery"):
        said = found[f"chaosflow.objective: ttft.p90 <= 1s [{window}]"]
        assert said.startswith("pass: p90 is "), said
    assert found["chaosflow.simulated"].startswith("the engine: ")
    for test in ("test_scenario", "test_timeline_in_the_body", "test_check_within_a_fault"):
        report = done.properties(test)["chaosflow.report"]
        assert "<html" in (suite.top / report).read_text()
    assert "= chaosflow =" in done.text
    assert "✓ pass         tests/test_resilience.py::test_scenario" in done.text
    assert "3 runs: 3 pass" in done.text
    runs = [p.name.split("-", 2)[2] for p in (suite.top / "chaos-runs").iterdir() if p.is_dir()]
    assert sorted(name[:6] for name in runs) == ["jitter", "test_c", "test_t"]
    with History.read(suite.top / "chaos-runs" / HISTORY_FILE) as history:
        rows = {row.name: row for row in history.entries()}
    assert set(rows) == {"jitter", "test_timeline_in_the_body", "test_check_within_a_fault"}
    setup = rows["test_timeline_in_the_body"].setup
    assert setup["faults.slow-network.params.delay_ms"] == 40
    assert "faults.slow-network.duration" not in setup, (
        "measured, not set: no two runs of a test were comparable"
    )
