"""What YAML reads differently from a person is refused, with the line and a remedy."""

from __future__ import annotations

import pytest

TARGET = "target: {engine: {}}\n"
LOAD = "load: {arrival: {kind: poisson, rate_per_s: 10}}\n"
SLA = 'sla: {objectives: ["ttft.p95 <= 200ms"]}\n'


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("on: 1\n", "s.yaml:1:1:", "the key on is read as true or false"),
        ("name: no\n", "s.yaml:1:7:", "no is read as true or false"),
        ("name: Off\n", "s.yaml:1:7:", "Off is read as true or false"),
        ("phases:\n  warmup: 1:30\n", "s.yaml:2:11:", "1:30 is read in base 60"),
        ("seed: 010\n", "s.yaml:1:7:", "octal"),
        ("phases: {warmup: .inf}\n", "s.yaml:1:18:", "not a finite number"),
        ("phases: {warmup: 1e999}\n", "s.yaml:1:18:", "not a finite number"),
        ("name: a\nname: b\n", "s.yaml:2:1:", "stands twice (first in line 1)"),
        ("phases:\n\twarmup: 5s\n", "s.yaml:2:1:", "a tab stands where YAML wants spaces"),
        ("name: !!python/object:os.system x\n", "s.yaml:1:7:", "the tag"),
        ("name: !mine x\n", "s.yaml:1:7:", "the tag !mine is not allowed"),
        ("<<: {name: a}\n", "s.yaml:1:1:", "merge keys"),
        ("? [a]\n: b\n", "s.yaml:1:3:", "a key must be a word"),
        ("name: *nobody\n", "s.yaml:1:7:", "undefined alias"),
        ("description: a: b\n", "s.yaml:1:15:", "must stand in quotes"),
        ("description: a\x07b\n", "s.yaml:1:15:", "is not allowed in YAML"),
    ],
)
def test_trap_is_refused_with_its_place(problems, text: str, where: str, said: str) -> None:
    found = problems(text + TARGET + LOAD + SLA)
    assert any(line.startswith(where) and said in line for line in found), found


def test_quoted_words_are_no_traps(load) -> None:
    text = 'name: "on"\ndescription: "1:30"\n' + TARGET + LOAD + SLA
    assert load(text).scenario.name == "on"


def test_alias_that_holds_itself_is_refused(problems) -> None:
    found = problems("probes: &a [*a]\n" + TARGET + LOAD + SLA)
    assert any("holds itself" in line for line in found)


def test_alias_bomb_is_refused_quickly(problems) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    found = problems("\n".join(lines) + "\n" + TARGET + LOAD + SLA)
    assert any("more than 20000 values" in line for line in found)


def test_plain_alias_works(load) -> None:
    text = TARGET + LOAD + 'phases: {warmup: &d 7s, recovery: *d}\nsla: {objectives: ["e2e.p95 <= 1s"]}\n'
    assert load(text).scenario.phases.recovery == 7.0


def test_exponent_is_a_number(load, minimal: str) -> None:
    assert load(minimal.replace("rate_per_s: 10", "rate_per_s: 1e1")).scenario.load.arrival.rate_per_s == 10


def test_deep_nesting_is_a_problem_not_a_crash(problems) -> None:
    assert "nested too deeply" in problems("a: " + "[" * 20_000)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the file is empty"),
        (b"# nothing\n", "the file is empty"),
        (b"- a\n- b\n", "a scenario is a mapping"),
        (b"hello\n", "a scenario is a mapping"),
        (b"name: a\n---\nname: b\n", "a second YAML document"),
        (b"name: \xff\xfe\n", "0xff is no UTF-8"),
        (b"name: [a\n", "not valid YAML"),
        (b"x" * (1 << 20) + b"x", "larger than 1 MiB"),
    ],
)
def test_file_that_is_no_scenario(problems, text: bytes, said: str) -> None:
    assert any(said in line for line in problems(text))


def test_byte_order_mark_is_skipped(load, minimal: str) -> None:
    assert load(b"\xef\xbb\xbf" + minimal.encode()).scenario.seed == 7
