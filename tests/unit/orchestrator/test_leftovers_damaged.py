"""What a killed run wrote down may be damaged anywhere: what can be read is, and else the message says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaosflow.core.errors import UsageError
from chaosflow.orchestrator.leftovers import read_facts
from chaosflow.orchestrator.rebuild import rebuild

_SCENARIO = {
    "version": 1,
    "name": "tiny",
    "target": {"engine": {"backend": "sim"}},
    "load": {"arrival": {"kind": "poisson", "rate_per_s": 5}},
    "phases": {"baseline": "5s"},
    "sla": {"objectives": ["ttft.p50 <= 1s"]},
}


def _folder(top: Path, facts: list[Any], events: list[Any] = []) -> Path:  # noqa: B006 - only read
    (top / "scenario.json").write_text(json.dumps(_SCENARIO))
    (top / "facts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in facts))
    (top / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in events))
    return top


def test_lines_that_are_no_facts_are_left_out(tmp_path: Path) -> None:
    wrong = [
        {"what": "mark", "data": ["no such kind", 3, "x"]},
        {"what": "mark", "data": []},
        {"what": "limits", "data": {"a": [1, 2]}},
        {"what": "limits", "data": {"1": 5}},
        {"what": "fault", "data": {"name": 5}},
        None,
        [],
    ]
    events = [{"at_s": "x"}, {"at_s": 1.0, "what": "start", "text": "ours"}, 5, None]
    facts = read_facts(_folder(tmp_path, [*wrong, {"what": "run", "data": {"run_id": "a"}}], events))
    assert facts.run == {"run_id": "a"}
    assert facts.marks == []
    assert facts.limits == {}
    assert [event.text for event in facts.events] == ["ours"]


@pytest.mark.parametrize(
    "run", [{"run_id": "a", "simulated": 5}, {"run_id": "a", "started_utc": []}, {"run_id": 5}, {"x": 1}]
)
def test_facts_of_wrong_types_are_told_as_damage(
    tmp_path: Path, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOSFLOW_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(UsageError, match=r"is damaged \(.*its faults are undone"):
        rebuild(_folder(tmp_path, [{"what": "run", "data": run}]))
