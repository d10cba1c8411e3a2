"""``--set PATH=VALUE`` changes the scenario before it is checked."""

from __future__ import annotations

import pytest

FAULTS = """\
faults:
  - {name: jitter, type: net.delay, duration: 5s, params: {delay_ms: 10}}
"""


def test_number_and_text(load) -> None:
    scenario = load(overrides=["load.arrival.rate_per_s=40", "name=other"]).scenario
    assert (scenario.load.arrival.rate_per_s, scenario.name) == (40.0, "other")


def test_fault_by_name_and_by_number(load, minimal: str) -> None:
    text = minimal + FAULTS
    for path in ("faults.jitter.params.delay_ms", "faults.0.params.delay_ms"):
        assert load(text, [f"{path}=20"]).scenario.faults[0].params["delay_ms"] == 20.0


def test_whole_mapping_is_replaced(load) -> None:
    arrival = load(overrides=["load.arrival={kind: closed, users: 4}"]).scenario.load.arrival
    assert arrival.kind == "closed"
    assert arrival.users == 4


def test_absent_section_is_made(load) -> None:
    assert load(overrides=["phases.warmup=1s"]).scenario.phases.warmup == 1.0


def test_url_replaces_the_engine_and_the_reverse(load, minimal: str) -> None:
    scenario = load(overrides=["target.url=http://127.0.0.1:9/v1", "target.process.pid=7"]).scenario
    assert scenario.target.engine is None
    assert scenario.target.process is not None
    text = minimal.replace("engine: {}", 'url: "http://127.0.0.1:9/v1", api_key: k')
    assert load(text, ["target.engine.max_batch=8"]).scenario.target.url is None


def test_override_takes_the_environment_too(load) -> None:
    loaded = load(overrides=["load.arrival.rate_per_s=${env:R}"], env={"R": "3"})
    assert loaded.scenario.load.arrival.rate_per_s == 3.0


def test_override_repairs_a_broken_value(load, minimal: str) -> None:
    assert load(minimal + "seed: 010\n", ["seed=8"]).scenario.seed == 8


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed", "cannot read it; write PATH=VALUE"),
        ("=3", "cannot read it"),
        ("load..x=3", "cannot read it"),
        ("sla.windw=3s", "unknown key 'windw' in sla; did you mean 'window'?"),
        ("load.arrival.rate=3", "unknown key 'rate' in load.arrival; did you mean 'rate_per_s'?"),
        ("faults.jiter.at=3s", "nothing is named 'jiter' in faults; did you mean 'jitter'?"),
        ("seed.x=3", "seed has no parts to set"),
        ("seed=x", "seed must be a whole number, given the text 'x'"),
        ("seed=1:30", "base 60"),
        ("load={a", "not valid YAML"),
    ],
)
def test_problem_names_the_option(problems, minimal: str, override: str, said: str) -> None:
    found = problems(minimal + "seed: 1\n" + FAULTS, [override])
    assert any(line.startswith(f"--set {override}: ") and said in line for line in found), found
