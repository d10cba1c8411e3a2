"""Files and options that nobody in their senses writes: each one is an error of usage, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError
from chaosflow.core.source import find_scenario

SHIPPED = Path(__file__).resolve().parents[3] / "scenarios"

REST = 'target: {engine: {}}\nload: {arrival: {kind: poisson, rate_per_s: 10}}\nsla: {objectives: ["ttft.p95 <= 1s"]}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name: !!int "abc"\n', "the tag tag:yaml.org,2002:int is not allowed"),
        ("name: !!str x\n", "the tag tag:yaml.org,2002:str is not allowed"),
        ("phases: !!map {}\n", "the tag tag:yaml.org,2002:map is not allowed"),
        ("probes: !!seq []\n", "the tag tag:yaml.org,2002:seq is not allowed"),
        ("!!str name: x\n", "the tag tag:yaml.org,2002:str is not allowed"),
        ("name: ! x\n", "the tag ! is not allowed"),
        ("seed: " + "9" * 6000 + "\n", "a number of 6000 digits"),
        ("seed: 0x" + "f" * 6000 + "\n", "a number of 6002 digits"),
        ("seed: 0x_\n", "0x_ is no number"),
        ('name: "\\ud800"\n', "half a character"),
        ('"\\ud800": x\n', "half a character"),
        ("phases: {baseline: 99999999999999999999h}\n", "longer than 30 years"),
        ("phases: {baseline: 1e300}\n", "longer than 30 years"),
    ],
    ids=lambda text: text[:20],
)
def test_refused_in_words(problems, text: str, said: str) -> None:
    found = problems(text + REST)
    assert len(found) == 1
    assert said in found[0]
    assert len(found[0]) < 300


def test_what_is_nested_without_end(problems) -> None:
    found = problems("description: " + "[" * 100 + "]" * 100 + "\n" + REST)
    assert any("s.yaml:1:78: nested too deeply" in line for line in found), found


@pytest.mark.slow  # a second of pure-Python YAML
def test_a_list_without_end(problems) -> None:
    chain = "".join(
        f"  - {{name: f{i}, type: fake.pause, after: f{i + 1}, duration: 1s}}\n" for i in range(1500)
    )
    found = problems(REST + "faults:\n" + chain)
    assert any("faults may hold at most 500 items, given 1500" in line for line in found), found[:3]


def test_a_path_of_many_parts(problems) -> None:
    found = problems(REST, overrides=["a." * 3000 + "b=1"])
    assert len(found) == 1
    assert "the path has 3001 parts" in found[0]
    assert len(found[0]) < 300


def test_bytes_that_are_no_text_from_the_environment(problems) -> None:
    found = problems('name: "${env:X}"\n' + REST, env={"X": b"\xff".decode("utf-8", "surrogateescape")})
    assert len(found) == 1
    assert "the environment variable X holds bytes that are no UTF-8" in found[0]


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 5000 + ".yaml"], ids=["bare", "file"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        find_scenario(name, SHIPPED)
