"""What is no pass, and how a test tells of it: the window and the numbers, in the terminal and in JUnit."""

from __future__ import annotations

import pytest
from pytest_rig import LOAD, Suite

pytestmark = pytest.mark.slow

SUITE = f"""\
import pytest

def test_fail(fault, slo_checker):
    with fault("proxy.latency", delay_ms=1500):
        slo_checker.check("ttft.p90 <= 1s", "error_rate <= 10%", duration="1s", {LOAD})

def test_not_confirmed(fault):
    with fault("proxy.latency", delay_ms=300):
        pass  # nothing goes through it

def test_never_injected(fault):
    fault("proxy.latency", delay_ms=300)

def test_unknown(fault):
    with fault("proxy.latncy", delay_ms=300):
        pass

def test_param(fault):
    with fault("proxy.latency", delay=300):
        pass

def test_cannot(fault):
    with fault("process.pause"):  # nobody knows its processes
        pass

def test_twice_on_one_thing(fault):
    with fault("stream.stall", after_events=1, stall_ms=10):
        raise ValueError("its own error")

def test_all_is_undone_in_between(chaos_target, fault):
    import urllib.request
    urllib.request.urlopen(chaos_target.url + "/models", timeout=5).close()
"""


def test_whatever_is_no_pass_fails_its_own_item(suite: Suite, server: tuple[str, int]) -> None:
    """pytest-benchmark: raised in the summary hook, the test stayed green. chaostoolkit-lib 95: never injected, green."""
    suite.write("tests/test_all.py", SUITE)
    done = suite.run("--chaos-url", server[0])
    assert done.code == 1, done.text
    message = done.messages("test_fail")
    assert message.startswith("failure: SlaBroken: ttft.p90 <= 1s is broken: in proxy-latency: p90 is 1.5")
    assert "✓ error_rate <= 10%" in message
    assert "asked: tests/test_all.py:5" in done.text
    assert done.properties("test_fail")["chaosflow.state"] == "fail"
    assert "MeasurementInvalid" in done.messages("test_not_confirmed")
    assert "never injected" in done.messages("test_never_injected")
    assert "did you mean 'proxy.latency'?" in done.messages("test_unknown")
    assert "did you mean 'delay_ms'?" in done.messages("test_param")
    assert "FaultUnavailable" in done.messages("test_cannot")
    assert "ValueError: its own error" in done.messages("test_twice_on_one_thing")
    assert done.messages("test_all_is_undone_in_between") == ""
    # no line of ours in any traceback: each ends in the test's own
    assert '>       with fault("proxy.latncy"' in done.text
    assert "chaosflow/pytest_plugin" not in done.text
    assert "chaosflow/orchestrator" not in done.text
    section = done.text.split("= chaosflow =", 1)[1]
    assert "✗ fail         tests/test_all.py::test_fail\n    ttft.p90 <= 1s is broken" in section
    assert "1 run: 1 fail" in section
    assert (
        max(len(line) for line in section.split("\n===")[0].splitlines() if "report.html" not in line) <= 80
    )


CUT = f"""\
import pytest

@pytest.mark.slo("ttft.p50 <= 30s", {LOAD})
def test_marked(fault, slo_checker):
    slo_checker.hold("1.5s")
    with fault("process.pause"):  # nobody knows its processes
        pass

def test_watched(slo_checker):
    with slo_checker.watch("ttft.p50 <= 30s", {LOAD}):
        slo_checker.hold("1.5s")
        raise ValueError("its own error")
"""


def test_a_run_that_its_test_cut_short_is_no_pass(suite: Suite, server: tuple[str, int]) -> None:
    """Its baseline alone held: the summary and JUnit said "pass" beside a test that had failed."""
    suite.write("tests/test_cut.py", CUT)
    done = suite.run("--chaos-url", server[0])
    assert "FaultUnavailable" in done.messages("test_marked")
    assert "ValueError: its own error" in done.messages("test_watched")
    assert done.properties("test_marked")["chaosflow.state"] == "inconclusive"
    section = done.text.split("= chaosflow =", 1)[1]
    assert "the test's own code ended early (FaultUnavailable)" in section
    assert "the test's own code ended early (ValueError)" in section
    assert "2 runs: 2 inconclusive" in section
