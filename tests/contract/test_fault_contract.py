"""What every fault atom promises, tried on every one there is, on real processes, cgroups and sockets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from contract_rigs import CANNOT_HERE, NEED_ROOT, RIGS, Rig
from pydantic import ValidationError
from told import tell_rung

import chaosflow.faults
from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.registry import Registry

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "faults.md"

registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
registry.scan(chaosflow.faults, "chaosflow.faults")
_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sets limits of a cgroup of its own"),
]
KINDS = [
    pytest.param(kind, marks=[pytest.mark.slow, *(_root if kind in NEED_ROOT else [])])
    for kind in registry.names()
]
ON_TRAFFIC = [
    param
    for param in KINDS
    if str(param.values[0]).startswith(("net.", "proxy.", "stream.")) and param.values[0] != "proxy.down"
]
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def rig(kind: str) -> Iterator[Rig]:
    assert kind in RIGS, f"{kind}: give it a rig in contract_rigs.py"
    if reason := CANNOT_HERE.get(kind):
        pytest.skip(reason)
    with RIGS[kind]() as made:
        yield made


def _act(what: str, rig: Rig, undo: Undo, tmp_path: Path, *prefix: str) -> int:
    file = tmp_path / "undo.json"
    atom = registry.get(undo.kind)
    name = f"{atom.__module__}:{atom.__name__}"
    file.write_text(json.dumps({"atom": name, "params": rig.params, "undo": undo.model_dump()}))
    command = [*prefix, sys.executable, HERE / "contract_act.py", what, file]
    return subprocess.run(command, stderr=subprocess.DEVNULL if prefix else None, timeout=60).returncode


def _planned(kind: str, rig: Rig) -> tuple[FaultAtom, Undo]:
    atom = registry.get(kind).model_validate(rig.params)
    undo = asyncio.run(atom.plan(rig.host, "some-name"))
    tell_rung(undo, atom.check(rig.host).rung)
    return atom, undo


@every_kind
def test_params_come_back_from_json_and_unknown_ones_are_refused(kind: str, rig: Rig) -> None:
    atom = registry.get(kind).model_validate(rig.params)
    assert type(atom).model_validate_json(atom.model_dump_json()) == atom
    with pytest.raises(ValidationError):
        type(atom).model_validate({**rig.params, "no_such_parameter": 1})


@every_kind
def test_check_and_plan_change_nothing(kind: str, rig: Rig) -> None:
    before = rig.look()
    atom, undo = _planned(kind, rig)
    assert atom.check(rig.host).ok, atom.check(rig.host)
    assert atom.resource(rig.host)
    nothing_yet = replace(rig.host.target, included=True, processes=(), cgroups={}, vgpu_state=None)
    planning = replace(rig.host, planning=True, proxy=None, target=nothing_yet)
    assert atom.check(planning).ok, atom.check(planning)
    assert atom.resource(planning)
    assert rig.look() == before
    assert Undo.model_validate_json(undo.model_dump_json()) == undo
    assert bool(undo.manual) == atom.reversible


@every_kind
def test_inject_shows_and_revert_puts_the_prior_state_back_twice(kind: str, rig: Rig) -> None:
    before = rig.look()
    atom, undo = _planned(kind, rig)
    asyncio.run(atom.inject(undo))
    first = asyncio.run(atom.is_active(undo))
    assert first, first.evidence
    rig.drive()
    give_up = time.monotonic() + 3
    while not (effect := asyncio.run(atom.is_active(undo))).met and time.monotonic() < give_up:
        time.sleep(0.01)
    assert effect, effect.evidence
    assert effect.met, effect.evidence
    assert re.search(r"\d", effect.evidence), effect.evidence
    assert rig.look() != before
    for _ in range(2):
        asyncio.run(atom.revert(undo))
        if atom.reversible:
            assert not asyncio.run(atom.is_active(undo))
            assert rig.look() == before


@pytest.mark.parametrize("kind", ON_TRAFFIC)
def test_what_no_traffic_has_met_does_not_stay_confirmed(kind: str, rig: Rig) -> None:
    """chaosd 273, chaosblade 1315: success reported, no effect. In place alone is no effect."""
    atom, undo = _planned(kind, rig)
    asyncio.run(atom.inject(undo))
    try:
        effect = asyncio.run(atom.is_active(undo))
        assert effect, effect.evidence
        assert not effect.met, effect.evidence
        assert re.search(r"\b0\b", effect.evidence), effect.evidence
    finally:
        asyncio.run(atom.revert(undo))


@every_kind
def test_an_injection_killed_at_once_is_reverted_by_another_process(
    kind: str, rig: Rig, tmp_path: Path
) -> None:
    """pumba 147: kill -9 leaves the fault in place."""
    before = rig.look()
    atom, undo = _planned(kind, rig)
    assert _act("inject", rig, undo, tmp_path) == -signal.SIGKILL
    if not getattr(atom, "dies_with_us", False):  # its helpers are tied to the injector
        assert asyncio.run(atom.is_active(undo))
    assert _act("revert", rig, undo, tmp_path) == 0
    assert _act("revert", rig, undo, tmp_path) == 0
    if atom.reversible:
        assert not asyncio.run(atom.is_active(undo))
        assert rig.look() == before


@pytest.mark.parametrize("kind", [p for p in KINDS if str(p.values[0]).startswith("net.")])
def test_a_revert_that_has_lost_the_privilege_is_no_success(kind: str, rig: Rig, tmp_path: Path) -> None:
    """chaosblade 1315: success reported. Who may not look for the fault may not say that it is gone."""
    before = rig.look()
    atom, undo = _planned(kind, rig)
    asyncio.run(atom.inject(undo))
    assert _act("revert", rig, undo, tmp_path, "setpriv", "--bounding-set=-all", "--inh-caps=-all") == 1
    assert asyncio.run(atom.is_active(undo))
    asyncio.run(atom.revert(undo))
    assert rig.look() == before


@every_kind
def test_the_manual_command_undoes_it_without_us(kind: str, rig: Rig) -> None:
    before = rig.look()
    atom, undo = _planned(kind, rig)
    if "curl" in undo.manual and shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the manual command is one of its")
    asyncio.run(atom.inject(undo))
    subprocess.run(["sh", "-c", undo.manual], check=True, timeout=60, stdout=subprocess.DEVNULL)
    if atom.reversible:
        assert not asyncio.run(atom.is_active(undo))
        assert rig.look() == before


@every_kind
def test_reverting_what_was_only_planned_changes_nothing(kind: str, rig: Rig) -> None:
    """A crash between journal and injection: the journal says more than was done."""
    before = rig.look()
    atom, undo = _planned(kind, rig)
    asyncio.run(atom.revert(undo))
    assert rig.look() == before


@pytest.mark.parametrize("kind", registry.names())
def test_a_docs_row_names_the_kind_and_every_parameter(kind: str) -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{kind}`")]
    assert len(rows) == 1, f"docs/faults.md needs one row that begins with | `{kind}`"
    for parameter in registry.get(kind).model_fields:
        assert f"`{parameter}`" in rows[0], f"{kind}: docs/faults.md does not name {parameter}"


def test_there_is_a_rig_for_every_kind() -> None:
    assert set(RIGS) == set(registry.names())
