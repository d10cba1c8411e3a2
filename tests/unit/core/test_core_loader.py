"""A scenario file becomes a Scenario, or every problem at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.errors import ExitCode, ScenarioError
from chaosflow.core.loader import load_scenario

BAD = """\
version: 2
target:
  engine: {backend: sim, port: "80", gpo: h200}
  url: ftp://x
load:
  arrival: {kind: poison, rate_per_s: 40}
  prompt_tokns: 256
  output_tokens: 6.5
  rate_per_s: 3
  max_requests: true
faults:
  - name: jitter
    type: net.dealy
    duration: 60s
  - name: j2
    type: net.delay
    after: jiter
    at: 3
    duration: 5
    params: {delay_ms: 40, jitter_ms: 50}
  - {name: k, type: process.kill, duration: 3s, params: {signl: KILL}}
  - {name: g, type: gpu.clock, after: k.revert, params: {device_id: a}}
  - hello
probes: [engine, hst]
sla:
  objectives:
    - e2e.p99 <= 800
    - ttft <= 200ms
    - foo.p99 < 3s
    - ttft.p95 <= 200ms during jit
abort: [error_rate > 50%]
"""


def test_all_problems_at_once_each_with_its_place(problems) -> None:
    found = problems(BAD, known={"probes": ["engine", "host"]})
    expected = {
        "s.yaml:1:10:": "version must be 1, given 2",
        "s.yaml:2:1:": "give either 'engine' (the included one) or 'url'",
        "s.yaml:3:32:": "port must be a whole number, given the text '80'; remove the quotes",
        "s.yaml:3:38:": "unknown key 'gpo' in target.engine; did you mean 'gpu'?",
        "s.yaml:6:19:": "did you mean 'poisson'?",
        "s.yaml:7:3:": "unknown key 'prompt_tokns' in load; did you mean 'prompt_tokens'?",
        "s.yaml:8:18:": "output_tokens must be a whole number, given 6.5",
        "s.yaml:9:3:": "unknown key 'rate_per_s' in load; it belongs under load.arrival",
        "s.yaml:10:17:": "max_requests must be a whole number, given true",
        "s.yaml:13:11:": "unknown fault type 'net.dealy'; did you mean 'net.delay'?",
        "s.yaml:15:5:": "give only one of at, after, with",
        "s.yaml:17:12:": "no fault is named 'jiter'; did you mean 'jitter'?",
        "s.yaml:20:5:": "jitter_ms 50 is above delay_ms 40",
        "s.yaml:21:45:": "process.kill is over at once",
        "s.yaml:21:58:": "unknown key 'signl'; did you mean 'signal'?",
        "s.yaml:22:39:": "k cannot be reverted, so there is no k.revert",
        "s.yaml:22:69:": "device_id must be a whole number, given the text 'a'",
        "s.yaml:23:5:": "item 5 of the list must be keys with values",
        "s.yaml:24:18:": "unknown 'hst'; did you mean 'host'?",
        "s.yaml:27:7:": "800 has no unit; write 800ms or 800s",
        "s.yaml:28:7:": "ttft needs a percentile such as ttft.p95",
        "s.yaml:29:7:": "unknown metric 'foo'",
        "s.yaml:30:7:": "no fault is named 'jit'; did you mean 'jitter'?",
        "s.yaml:31:9:": "cannot read abort rule",
    }
    for where, said in expected.items():
        assert any(line.startswith(where) and said in line for line in found), (where, said, found)
    assert any("'duration' is missing" in line for line in found)
    assert any("'target_freq_mhz' is missing" in line for line in found)


def test_a_value_that_was_told_as_wrong_is_not_missing_too(problems, minimal: str) -> None:
    text = minimal.replace("kind: poisson", "kind: poison").replace("kind: constant", "kind: poison")
    assert "poison" in text
    found = problems(text)
    assert "did you mean 'poisson'?" in str(found)
    assert "missing" not in str(found)


def test_no_pydantic_jargon_reaches_the_reader(problems) -> None:
    text = "\n".join(problems(BAD))
    for jargon in ("pydantic", "Input should", "type=", "input_value", "http", "valid string"):
        assert jargon not in text


def test_problem_is_exit_code_2(load) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(BAD)
    assert caught.value.exit_code is ExitCode.USAGE


def test_zero_objectives_is_a_usage_error(problems, minimal: str) -> None:
    """keptn 2277: no objective, yet "pass"."""
    assert "no objectives" in problems(minimal.replace('["ttft.p95 <= 200ms"]', "[]"))[0]
    assert any("'sla' is missing" in line for line in problems("\n".join(minimal.splitlines()[:2])))


SOURCE_TEXT_FAULTS = """\
faults:
  - name: gpu-clock-throttle
    type: cuda_device
    params:
      device_id: 0
      target_freq_mhz: 300  # forced down to 300 MHz
      duration_sec: 45
"""


def test_fault_list_of_the_source_text_loads_as_it_stands(load, minimal: str) -> None:
    step = load(minimal + SOURCE_TEXT_FAULTS).scenario.faults[0]
    assert (step.type, step.duration) == ("gpu.clock", 45.0)
    assert step.params == {"device_id": 0, "target_freq_mhz": 300}


def test_two_spellings_of_a_duration_are_an_error(problems, minimal: str) -> None:
    both = SOURCE_TEXT_FAULTS.replace("    params:", "    duration: 45s\n    params:")
    assert "'duration' and 'duration_sec' are both given" in problems(minimal + both)[0]


def test_atoms_come_with_their_params(load, minimal: str) -> None:
    loaded = load(minimal + "faults: [{name: d, type: net.delay, duration: 5s, params: {delay_ms: 20}}]\n")
    assert loaded.atoms["d"].kind == "net.delay"
    assert loaded.scenario.faults[0].params == {"delay_ms": 20.0, "jitter_ms": 0.0}


def test_cycle_of_faults_is_named(problems, minimal: str) -> None:
    faults = """faults:
  - {name: a, type: process.kill, after: b}
  - {name: b, type: process.kill, after: c}
  - {name: c, type: process.kill, with: a}
  - {name: d, type: process.kill, after: a}
  - {name: e, type: process.kill, after: e}
"""
    found = problems(minimal + faults)
    assert [line for line in found if "wait for each other" in line] == [
        "s.yaml:5:42: faults wait for each other: a -> b -> c -> a; give one of them 'at'"
    ]
    assert any("e refers to itself" in line for line in found)


def test_two_faults_of_one_name(problems, minimal: str) -> None:
    text = minimal + "faults: [{name: a, type: process.kill}, {name: a, type: process.kill}]\n"
    assert problems(text) == ["s.yaml:4:48: 2 faults are named 'a'; give each its own name"]


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("recovery <= 5s", "there is no fault to recover from"),
        ("ttft.p95 <= 1s during faults", "holds for no part of this run"),
        ("ttft.p95 <= 1.5x baseline", "holds for no part of this run"),
    ],
)
def test_objective_that_nothing_can_decide(problems, minimal: str, objective: str, said: str) -> None:
    assert said in problems(minimal.replace("ttft.p95 <= 200ms", objective))[0]


def test_empty_value_says_so(problems, minimal: str) -> None:
    assert "is empty" in problems(minimal + "faults:\n")[0]


def test_wrong_type_of_a_duration(problems, minimal: str) -> None:
    found = problems(minimal + "phases: {warmup: [5], baseline: true, recovery: -1}\n")
    assert len(found) == 3
    assert all("duration" in line for line in found)


def test_shipped_scenario_by_bare_name(tmp_path: Path, monkeypatch, atoms, minimal: str) -> None:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "quickstart.yaml").write_text(minimal)
    (tmp_path / "own.yaml").write_text(minimal)
    monkeypatch.chdir(tmp_path)
    assert load_scenario("quickstart", atoms=atoms, shipped=shipped).path.parent == shipped
    for wrong, said in [
        ("quickstrt", "did you mean 'quickstart'?"),
        ("own.yml", "did you mean 'own.yaml'?"),
        ("nothing/at/all.yaml", "shipped scenarios: quickstart"),
        (".", "is a folder"),
        ("/dev/null", "is not a regular file"),
    ]:
        with pytest.raises(ScenarioError) as caught:
            load_scenario(wrong, atoms=atoms, shipped=shipped)
        assert said in str(caught.value)
