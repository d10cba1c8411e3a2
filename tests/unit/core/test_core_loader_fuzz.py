"""Whatever stands in the file: a scenario or problems with places, never another exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaosflow.core.errors import ScenarioError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loader import load_scenario
from chaosflow.core.registry import Registry

VALID: dict[str, Any] = {
    "version": 1,
    "name": "n",
    "target": {"url": "http://127.0.0.1:1/v1", "process": {"pid": 7}, "ready_timeout": "3s"},
    "load": {
        "arrival": {"kind": "poisson", "rate_per_s": 3},
        "headers": {"a": "b"},
        "extra_body": {"x": [1]},
    },
    "phases": {"warmup": 1, "baseline": "20s"},
    "faults": [
        {"name": "a", "type": "net.delay", "duration": 3, "params": {"delay_ms": 3}},
        {"name": "b", "type": "process.kill", "after": "a"},
        {
            "name": "c",
            "type": "cuda_device",
            "with": "b",
            "params": {"target_freq_mhz": 1, "duration_sec": 3},
        },
    ],
    "probes": ["engine"],
    "sla": {"objectives": ["ttft.p95 <= 1s", "e2e.p95 <= 2x baseline during a", "recovery <= 3s"]},
    "abort": ["error_rate > 50% for 3s"],
}

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "${env:A}", "${env:B:-3}", "${env:", "3s", "a", "p95", "1e9", "é\u2028"]),
    st.sampled_from([[], {}, [[]], [{}], {"kind": "closed"}, {"kind": 3}, {"a": {"b": 1}}, [1, "x", None]]),
)


def places(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    return [p for k, v in items for p in ((*above, k), *places(v, (*above, k)))]


PLACES = places(VALID)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "delete", "rename"]), JUNK), max_size=4
    )
)
def test_any_damage_gives_a_scenario_or_problems(
    tmp_path: Path, atoms: Registry[FaultAtom], damage: list[tuple[tuple[Any, ...], str, Any]]
) -> None:
    data = json.loads(json.dumps(VALID))
    for path, how, junk in damage:
        holder = data
        try:
            for step in path[:-1]:
                holder = holder[step]
            if how == "set":
                holder[path[-1]] = junk
            else:
                value = holder.pop(path[-1])
                if how == "rename" and isinstance(holder, dict):
                    holder[f"{path[-1]}x"] = value
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(data))  # JSON is YAML
    try:
        load_scenario(file, atoms=atoms, shipped=tmp_path, env={"A": "secret-value"})
    except ScenarioError as e:
        for problem in e.problems:
            assert problem.line == 1
            assert problem.message
            assert "secret-value" not in str(problem)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"%@`#,?\n\t 01.~<=\u2028é"), max_size=60),
    st.text(alphabet=st.sampled_from("ab.=0:{}[]$ -,'\"*&"), max_size=20),
)
def test_any_text_and_any_override(
    tmp_path: Path, atoms: Registry[FaultAtom], text: str, override: str
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError):
        load_scenario(file, atoms=atoms, shipped=tmp_path, overrides=[override], env={})
