"""What is wrong with a marker is an error of collection, with file and line, before anything is started."""

from __future__ import annotations

import pytest
from pytest_rig import Suite

pytestmark = pytest.mark.slow

SCENARIO = """
    version: 1
    name: ok
    target: {engine: {backend: sim}}
    load: {arrival: {kind: constant, rate_per_s: 10}}
    phases: {warmup: 0s, baseline: 1s}
    sla: {objectives: [error_rate <= 50%]}
"""


def test_every_mistake_is_named_with_its_line_at_once(suite: Suite) -> None:
    """keptn 2277: no objective, yet "pass"; here zero objectives are a mistake."""
    suite.write("tests/ok.yaml", SCENARIO)
    suite.write("tests/typo.yaml", SCENARIO.replace("rate_per_s", "rate_per_sec"))
    suite.write(
        "tests/test_bad.py",
        """\
        import pytest

        @pytest.mark.chaos("missing.yaml")
        def test_missing(): ...
        """,
    )
    suite.write(
        "tests/test_worse.py",
        """\
        import pytest

        @pytest.mark.chaos("typo.yaml")
        def test_typo(): ...

        @pytest.mark.slo("ttft.p95 < 200ms")
        def test_operator(): ...

        @pytest.mark.parametrize("x", [1, 2])
        @pytest.mark.slo("tft.p95 <= 200ms")
        def test_metric(x): ...

        @pytest.mark.slo()
        def test_nothing_to_judge(): ...

        @pytest.mark.slo("ttft.p95 <= 200ms", rate_per_sec=3)
        def test_keyword(): ...

        @pytest.mark.chaos("ok.yaml", sets={})
        def test_set(): ...

        @pytest.mark.chaos("ok.yaml", set={"load.arrival.rate": 3})
        def test_override(): ...

        @pytest.mark.chaos("ok.yaml", expect="maybe")
        def test_expect(): ...

        def test_no_scenario(chaos_run): ...

        @pytest.mark.chaos("ok.yaml")
        @pytest.mark.slo("ttft.p95 <= 200ms", rate_per_s=3)
        def test_two_loads(): ...

        @pytest.mark.slo(3)
        def test_number(): ...

        @pytest.mark.slo(["ttft.p95 <= 200ms"])
        def test_list(): ...
        """,
    )
    done = suite.run()
    assert done.code == 2, done.text
    for expected in (
        "tests/test_bad.py:3: ",
        "missing.yaml: no such file",
        "tests/test_worse.py:3: ",
        "typo.yaml:5:",
        "did you mean 'rate_per_s'?",
        "tests/test_worse.py:6: marker slo: ",
        "tests/test_worse.py:10: marker slo: unknown metric 'tft'; did you mean 'ttft'?",
        "tests/test_worse.py:13: marker slo: names no objective",
        "tests/test_worse.py:16: marker slo: unknown keyword 'rate_per_sec'",
        "tests/test_worse.py:19: marker chaos: unknown keyword 'sets'; did you mean 'set'?",
        "tests/test_worse.py:22: --set load.arrival.rate=3",
        "tests/test_worse.py:25: marker chaos: expect='maybe'",
        "tests/test_worse.py:28: fixture chaos_run: there is no scenario",
        "tests/test_worse.py:31: ",
        "tests/test_worse.py:34: marker slo: 3 is no text",
        "tests/test_worse.py:37: marker slo: ['ttft.p95 <= 200ms'] is no text",
    ):
        assert expected in done.text, f"{expected!r} not in\n{done.text}"
    assert done.text.count("unknown metric 'tft'") == 1  # once, not once for each parameter
    assert "Traceback" not in done.text
    assert not (suite.top / "s").exists()
    assert not (suite.top / "runs").exists()


def test_a_variable_that_is_not_set_stops_its_own_test_only(suite: Suite) -> None:
    suite.write("tests/keyed.yaml", SCENARIO + "    description: ${env:CF_TEST_NOT_SET}\n")
    suite.write(
        "tests/test_env.py",
        """\
        import pytest

        @pytest.mark.chaos("keyed.yaml")
        def test_keyed(): ...

        def test_plain(): ...
        """,
    )
    done = suite.run()
    assert done.code == 1, done.text
    assert "CF_TEST_NOT_SET is not set" in done.messages("test_keyed")
    assert done.messages("test_plain") == ""


def test_an_option_that_cannot_be_is_a_usage_error(suite: Suite) -> None:
    suite.write("tests/test_plain.py", "def test_plain(): ...\n")
    done = suite.run("-o", "chaos_inconclusive=maybe")
    assert done.code == 4, done.text
    assert "write one of fail, skip, warn" in done.text


def test_markers_and_options_are_listed(suite: Suite) -> None:
    text = suite.run("--markers").text
    assert "@pytest.mark.chaos(scenario" in text
    assert "@pytest.mark.slo(*objectives" in text
    text = suite.run("--help").text
    assert "--chaos-inconclusive" in text
    assert "chaos_inconclusive" in text.split("--chaos-inconclusive", 1)[1]
