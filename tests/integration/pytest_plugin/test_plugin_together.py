"""Beside other plugins: several processes, and a test that has an event loop of its own."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from pytest_rig import LOAD, Suite

pytestmark = pytest.mark.slow

SUITE = """\
import json, pathlib, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_acts(number, fault, worker_id, request):
    # with --dist loadgroup all tests on one target go to one process
    assert request.node.get_closest_marker("xdist_group").args == ("chaosflow",)
    began = time.monotonic()
    with fault("process.pause"):
        time.sleep(0.2)
    pathlib.Path(f"span-{number}").write_text(json.dumps([began, time.monotonic()]))
"""


def test_two_processes_never_act_on_one_target_at_once(suite: Suite, server: tuple[str, int]) -> None:
    url, pid = server
    suite.write("tests/test_it.py", SUITE)
    done = suite.run("-n", "2", "--chaos-url", url, "--chaos-process", f"pid={pid}")
    assert done.code == 0, done.text
    spans = sorted(json.loads(p.read_text()) for p in suite.top.glob("span-*"))
    assert len(spans) == 4
    for (_, end), (begin, _) in pairwise(spans):
        assert end <= begin


def test_a_test_with_a_running_loop_and_a_summary_from_another_process(suite: Suite) -> None:
    suite.write(
        "tests/test_it.py",
        f"""\
        import asyncio
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_async(fault, slo_checker):
            asyncio.get_running_loop()
            with fault("gpu.clock", target_freq_mhz=300):
                run = slo_checker.check("error_rate <= 30%", duration="1s", {LOAD})
            assert run.passed
            assert run.segment("gpu-clock").failed == 0

        def test_kill(fault, chaos_target):
            before = chaos_target.pids
            with fault("process.kill"):
                pass
            test_kill.before = before

        def test_after_it(fault, chaos_target):
            assert chaos_target.pids != test_kill.before  # restarted, and waited for
        """,
    )
    done = suite.run("-n", "1", "-W", "ignore::pytest.PytestUnhandledThreadExceptionWarning")
    assert done.code == 0, done.text
    assert "✓ pass         tests/test_it.py::test_async" in done.text
    assert "1 run: 1 pass" in done.text
