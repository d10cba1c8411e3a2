"""Reads what a killed run had written down: every file may end in the middle of a line, or be missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from chaosflow.core.gziplines import gzip_lines
from chaosflow.core.result import Event
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CELLS_FILE, CellBatch
from chaosflow.orchestrator.rundir import PROBES_FILE

DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading data raises that is not what it should be."""


@dataclass(slots=True)
class Facts:
    """facts.jsonl, as far as it goes."""

    run: dict[str, Any] = field(default_factory=dict)
    begin: dict[str, Any] = field(default_factory=dict)
    """Empty: the load had not begun."""
    marks: list[Mark] = field(default_factory=list)
    faults: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last that was known of each."""
    limits: dict[int, tuple[float, float]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def read_facts(folder: Path) -> Facts:
    """All facts and events of a run. What cannot be read is left out."""
    facts = Facts()
    for line in _lines(folder / "facts.jsonl"):
        with suppress(*DAMAGE):
            _take(facts, line)
    for line in _lines(folder / "events.jsonl"):
        with suppress(ValidationError):
            facts.events.append(Event.model_validate(line))
    return facts


def _take(facts: Facts, line: Any) -> None:
    """One line of facts.jsonl. Raises one of DAMAGE, with nothing taken, where it is none of ours."""
    match line:
        case {"what": "run" | "begin" as what, "data": dict(data)}:
            setattr(facts, what, data)
        case {"what": "mark", "data": list(wire)}:
            facts.marks.append(Mark.from_wire(wire))
        case {"what": "fault", "data": {"name": str(name)} as data}:
            facts.faults[name] = data
        case {"what": "limits", "data": dict(pairs)}:
            facts.limits |= {int(i): (float(a), float(b)) for i, (a, b) in pairs.items()}


def _lines(path: Path) -> Iterator[Any]:
    """The whole lines of a JSON Lines file."""
    if not path.is_file():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            return  # cut short by the kill


def read_batches(folder: Path) -> Iterator[CellBatch]:
    """The cells, batch by batch, as far as the file goes."""
    for line in _lines_of(folder / CELLS_FILE):
        try:
            yield CellBatch.from_wire(orjson.loads(line))
        except DAMAGE:
            return


def read_probes(folder: Path) -> Iterator[tuple[float, str, float]]:
    """(at_s, series, value) of every reading."""
    for line in _lines_of(folder / PROBES_FILE):
        at_s, _, rest = line.decode(errors="replace").partition(",")
        series, _, value = rest.rpartition(",")
        try:
            yield float(at_s), series, float(value)
        except ValueError:
            continue  # the header, or half a line


def _lines_of(path: Path) -> Iterator[bytes]:
    if path.is_file():
        yield from gzip_lines(path)
