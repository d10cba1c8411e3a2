"""``${env:…}``: typed by the receiving field, no injection, and never shown."""

from __future__ import annotations

import json

import pytest

CANARY = "sk-canary-7f3a9c"


def test_environment_integer_stays_a_number(load, minimal: str) -> None:
    """chaostoolkit 254, 123: environment integers became strings."""
    text = minimal.replace("rate_per_s: 10", 'rate_per_s: "${env:RATE}"') + "seed: ${env:SEED}\n"
    scenario = load(text, env={"RATE": "12.5", "SEED": "3"}).scenario
    assert (scenario.load.arrival.rate_per_s, scenario.seed) == (12.5, 3)


def test_environment_digits_in_a_text_field_stay_text(load, minimal: str) -> None:
    scenario = load(minimal + "description: ${env:D}\n", env={"D": "0123"}).scenario
    assert scenario.description == "0123"


def test_environment_cannot_change_the_structure(load, minimal: str) -> None:
    """chaostoolkit 292: YAML broken by substitution."""
    nasty = 'x"}\nfaults: [{name: a}]\n#: {['
    loaded = load(minimal + "description: ${env:D}\n", env={"D": nasty})
    assert loaded.scenario.description == nasty
    assert loaded.scenario.faults == []


def test_duration_from_the_environment(load, minimal: str) -> None:
    text = minimal + 'phases: {warmup: "${env:W}", baseline: "${env:B:-25s}"}\n'
    phases = load(text, env={"W": "4"}).scenario.phases
    assert (phases.warmup, phases.baseline) == (4.0, 25.0)


def test_param_of_a_fault_from_the_environment(load, minimal: str) -> None:
    text = minimal + "faults:\n  - name: d\n    type: net.delay\n    duration: 5s\n"
    loaded = load(text + "    params:\n      delay_ms: ${env:MS}\n", env={"MS": "20"})
    assert loaded.scenario.faults[0].params["delay_ms"] == 20.0


def test_missing_variable_is_a_problem_with_a_remedy(problems, minimal: str) -> None:
    found = problems(minimal + "description: ${env:TOKEM}\n", env={"TOKEN": "x"})
    assert found == ["s.yaml:4:14: the environment variable TOKEM is not set; did you mean 'TOKEN'?"]
    assert "or give a default" in problems(minimal + "description: ${env:X9}\n")[0]


@pytest.mark.parametrize("text", ["${env:}", "${env:a-b}", "${env:OPEN"])
def test_malformed_reference(problems, minimal: str, text: str) -> None:
    assert "cannot read" in problems(minimal + f'description: "{text}"\n')[0]


def test_doubled_dollar_is_the_text_itself(load, minimal: str) -> None:
    assert load(minimal + "description: $${env:HOME}\n").scenario.description == "${env:HOME}"


def test_canary_secret_appears_nowhere(load, minimal: str) -> None:
    """chaostoolkit 178: secrets verbatim in the journal."""
    url = 'target: {url: "http://127.0.0.1:1/v1", api_key: "${env:KEY}"}\n'
    text = url + "\n".join(minimal.splitlines()[1:]) + '\ndescription: "with ${env:KEY} inside"\n'
    loaded = load(text, env={"KEY": CANARY})
    assert loaded.scenario.target.api_key == CANARY
    shown = json.dumps(loaded.redacted()) + loaded.hide(f"Bearer {CANARY}; {loaded.text}")
    assert CANARY not in shown
    assert loaded.redacted()["description"] == "with *** inside"
    assert loaded.secrets == {CANARY}


def test_literal_key_and_auth_header_are_secrets_too(load, minimal: str) -> None:
    text = """\
target: {url: "http://127.0.0.1:1/v1", api_key: literal-key}
load: {arrival: {kind: poisson, rate_per_s: 10}, headers: {X-Auth-Token: tok-123456, Accept: all-of-it}}
sla: {objectives: ["ttft.p95 <= 200ms"]}
"""
    loaded = load(text)
    shown = json.dumps(loaded.redacted()) + loaded.hide(loaded.text)
    for secret in ("literal-key", "tok-123456"):
        assert secret not in shown
    assert "all-of-it" in shown


def test_short_secret_hides_its_own_field_only(load, minimal: str) -> None:
    text = minimal.replace("rate_per_s: 10", 'rate_per_s: "${env:RATE}"')
    loaded = load(text, env={"RATE": "1"})
    assert loaded.redacted()["load"]["arrival"]["rate_per_s"] == "***"
    assert loaded.redacted()["load"]["output_tokens"] == 64
    assert loaded.hide("version 1") == "version 1"
    assert loaded.secrets == frozenset()


def test_secret_is_not_in_an_error_message(problems, minimal: str) -> None:
    text = minimal.replace("rate_per_s: 10", 'rate_per_s: "${env:KEY}"') + "phases: {warmup: '${env:KEY}'}\n"
    found = problems(text, env={"KEY": CANARY})
    assert len(found) == 2
    assert all(CANARY not in line and "the environment's value" in line for line in found)


def test_secret_with_quotes_is_hidden_in_json_too(load, minimal: str) -> None:
    secret = 'a"b\\c<d>é'
    loaded = load(minimal + "description: ${env:S}\n", env={"S": secret})
    assert loaded.hide(json.dumps({"a": secret})) == '{"a": "***"}'


def test_default_is_used_when_unset_or_empty_and_is_no_secret(load, minimal: str) -> None:
    for env in ({}, {"S": ""}):
        loaded = load(minimal + 'description: "${env:S:-in the file}"\n', env=env)
        assert loaded.redacted()["description"] == "in the file"


def test_literal_key_of_an_override_is_not_in_a_problem(problems, minimal: str) -> None:
    found = problems(minimal, ["target.url=http://h:1/v1", f"target.api_key={CANARY}", "target.api_kay=x"])
    assert found
    assert all(CANARY not in line for line in found)
