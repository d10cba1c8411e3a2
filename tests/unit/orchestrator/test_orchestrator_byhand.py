"""Faults and load that a program asks for by keywords are explained as those of a scenario are."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError, UsageError
from chaosflow.core.host import Host, TargetHandle
from chaosflow.orchestrator.byhand import make_atom, make_load, refuse_unknown
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.claims import claim, release
from chaosflow.orchestrator.timeline import clash

ATOMS = load_atoms()
HOST = Host("t", TargetHandle(True, "http://127.0.0.1:1/v1", vgpu_state=Path("v")), planning=True)


def test_an_atom_by_its_kind_or_alias() -> None:
    assert make_atom("proxy.latency", {"delay_ms": 40}, ATOMS).kind == "proxy.latency"
    assert make_atom("cuda_device", {"target_freq_mhz": 300}, ATOMS).kind == "gpu.clock"


def test_every_wrong_param_is_named_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        make_atom("proxy.latency", {"dely_ms": 1, "jitter_ms": "x"}, ATOMS)
    text = str(caught.value)
    assert "did you mean 'delay_ms'?" in text
    assert "jitter_ms" in text
    assert "'delay_ms' is missing; add delay_ms=…" in text, "as Python is written, and not as YAML"
    with pytest.raises(UsageError, match=r"did you mean 'proxy\.latency'"):
        make_atom("proxy.latncy", {}, ATOMS)


def test_a_load_by_keywords_has_defaults_and_takes_the_rest() -> None:
    plan = make_load(rate_per_s=3, load={"deadline": "5s"})
    assert plan.arrival.kind == "poisson"
    assert (plan.arrival.rate_per_s, plan.deadline) == (3, 5.0)
    closed = make_load(load={"arrival": {"kind": "closed", "users": 2}})
    assert closed.arrival.kind == "closed"
    with pytest.raises(UsageError, match="both given"):
        make_load(rate_per_s=1, load={"arrival": {"kind": "closed", "users": 2}})
    with pytest.raises(ScenarioError, match="did you mean 'deadline'"):
        make_load(load={"deadlin": "5s"})


def test_unknown_keywords_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'warmup'"):
        refuse_unknown("marker slo", {"warmups": 1}, ("warmup", "window"))


def test_what_does_not_compose_clashes() -> None:
    one = make_atom("gpu.clock", {"target_freq_mhz": 300}, ATOMS)
    two = make_atom("gpu.clock", {"target_freq_mhz": 400}, ATOMS)
    assert clash(one, two, HOST)
    assert clash(one, make_atom("proxy.latency", {"delay_ms": 1}, ATOMS), HOST) == []
    toxic = make_atom("proxy.latency", {"delay_ms": 1}, ATOMS)
    assert bool(clash(toxic, toxic, HOST)) is not toxic.composes


def test_claims_can_be_let_go(tmp_path: Path) -> None:
    claim(tmp_path, {"disk": "fill"})
    assert (tmp_path / "claims.json").exists()
    release(tmp_path)
    release(tmp_path)
    assert not (tmp_path / "claims.json").exists()
