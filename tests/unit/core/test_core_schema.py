"""The editor's schema agrees with the loader; the template of ``init`` is valid for both."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

import chaosflow
from chaosflow import faults
from chaosflow.core.fault import FaultAtom
from chaosflow.core.grammar import parse_objective
from chaosflow.core.loader import load_scenario
from chaosflow.core.registry import Registry
from chaosflow.core.schema import json_schema
from chaosflow.core.template import init_text
from chaosflow.sla.binomial import smallest_n


@pytest.fixture
def validator(atoms) -> jsonschema.Draft202012Validator:
    schema = json_schema(atoms)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


FAULT = "faults: [{name: a, type: %s, params: %s%s}]\n"


@pytest.mark.parametrize(
    ("line", "valid"),
    [
        ("seed: 3", True),
        ("seed: ${env:SEED}", True),
        ("seed: three", False),
        ("sed: 3", False),
        ("phases: {warmup: 5s, baseline: 30}", True),
        (FAULT % ("net.delay", "{delay_ms: 5}", ", duration: 3s"), True),
        (FAULT % ("net.delay", '{delay_ms: "${env:MS}"}', ", duration: 3s"), True),
        (FAULT % ("net.delay", "{delay_sm: 5}", ", duration: 3s"), False),
        (FAULT % ("net.dealy", "{}", ", duration: 3s"), False),
        (FAULT % ("cuda_device", "{target_freq_mhz: 300, duration_sec: 45}", ""), True),
        (FAULT % ("process.kill", "{}", ", duration: 3s"), False),
        (FAULT % ("process.kill", "{}", ", with: b"), True),
    ],
)
def test_schema_sees_what_the_loader_sees(validator, minimal: str, line: str, valid: bool) -> None:
    assert validator.is_valid(yaml.safe_load(minimal + line)) is valid


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8000/v1", "https://api.example.net/v1"])
def test_template_loads_with_the_real_atoms(url: str | None, tmp_path: Path) -> None:
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")
    registry.scan(faults, "chaosflow.faults")
    file = tmp_path / "scenario.yaml"
    file.write_text(init_text(url))
    loaded = load_scenario(file, atoms=registry, shipped=tmp_path, env={})
    assert loaded.scenario.target.url == url
    assert json_schema_accepts(registry, file)


def test_what_init_writes_for_a_server_asks_nothing_of_a_freeze_that_stops_its_own_users() -> None:
    """Eight users wait for the frozen server: no share below a third can be shown of eight requests."""
    text = init_text("http://127.0.0.1:8000/v1")
    users = yaml.safe_load(text)["load"]["arrival"]["users"]
    names = frozenset({"jitter", "freeze"})
    for line in yaml.safe_load(text)["sla"]["objectives"]:
        objective = parse_objective(line)
        if 0 < objective.allowed_share < 1 and objective.holds_for("freeze", names, frozenset()):
            assert smallest_n(0, objective.allowed_share) <= users, line


def json_schema_accepts(registry: Registry[FaultAtom], file: Path) -> bool:
    schema = jsonschema.Draft202012Validator(json_schema(registry))
    return bool(schema.is_valid(yaml.safe_load(file.read_text())))


SHIPPED = Path(chaosflow.__file__ or "").parent / "scenarios"


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_scenario_loads_and_says_what_it_is(file: Path) -> None:
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")
    registry.scan(faults, "chaosflow.faults")
    scenario = load_scenario(file, atoms=registry, shipped=SHIPPED, env={}).scenario
    assert scenario.name == file.stem
    assert scenario.description.endswith("?")
    assert json_schema_accepts(registry, file)


def test_there_are_shipped_scenarios() -> None:
    assert "quickstart" in [p.stem for p in SHIPPED.glob("*.yaml")]
