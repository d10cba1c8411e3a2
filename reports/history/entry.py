"""One run as the history keeps it, and which runs belong into one series."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaosflow.core.result import RunResult
from chaosflow.reports.history.metrics import Key, Value, values_of

_MACHINE = ("target", "cpu", "machine", "cores", "root", "cgroups", "clocksource", "own network namespace")
_VERSIONS = ("kernel", "python", "chaosflow")
_NOT_MEASURED = ("name", "description", "seed", "sla", "abort", "version", "probes")
"""Keys of a scenario that change nothing of what is measured: another limit starts no new series."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the history with its metrics."""

    run_id: str
    name: str
    state: str
    exit_code: int
    reason: str
    started_utc: str
    wall_s: float
    aborted: bool = False
    """Cut short: by an abort rule, or killed."""
    version: str = ""
    seed: int = 0
    fingerprint: dict[str, str] = field(default_factory=dict)
    """What must agree between runs that are compared: machine, software, what was simulated."""
    setup: dict[str, Any] = field(default_factory=dict)
    """The scenario as far as it changes what is measured, flat: ``load.arrival.rate_per_s`` -> 40."""
    folder: str = ""
    """Relative to the history file where it lies below it, so that both can move together."""
    session: str = ""
    """The nightly that made the run; empty for a single one."""
    values: dict[Key, Value] = field(default_factory=dict)

    @property
    def series(self) -> str:
        """Equal for runs that measure the same on the same machine (pytest-benchmark 276)."""
        text = json.dumps([self.fingerprint, self.setup], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def counts(self) -> bool:
        """Whether its numbers may stand in a series: measured to the end, and soundly."""
        return (
            self.exit_code in (0, 1, 3)
            and self.state in ("pass", "fail", "inconclusive")
            and not self.aborted
        )


def entry_of(result: RunResult, folder: Path | None = None, session: str = "") -> Entry:
    """The row of a run. Reads nothing; ``folder`` is kept as given."""
    return Entry(
        run_id=result.run_id,
        name=result.name,
        state=result.state,
        exit_code=result.exit_code,
        reason=result.reason,
        started_utc=result.started_utc,
        wall_s=result.wall_s,
        aborted=bool(result.aborted) or result.killed,
        version=result.version,
        seed=result.seed,
        fingerprint=fingerprint_of(result),
        setup=setup_of(result.scenario),
        folder="" if folder is None else str(folder),
        session=session,
        values=values_of(result),
    )


def fingerprint_of(result: RunResult) -> dict[str, str]:
    """What makes two machines alike. The user's commit is left out: it is what a nightly compares.

    Versions count by their first two numbers and memory by whole GiB, so that a security update starts
    no new series.
    """
    environment = result.environment
    found = {name: environment[name] for name in _MACHINE if name in environment}
    found |= {name: _short_version(environment[name]) for name in _VERSIONS if name in environment}
    if memory := re.match(r"[\d.]+", environment.get("memory", "")):
        found["memory"] = f"{float(memory[0]):.0f} GiB"
    found["simulated"] = "; ".join(result.simulated) or "nothing"
    return found


def _short_version(text: str) -> str:
    match = re.match(r"\d+\.\d+", text)
    return match[0] if match else text


def setup_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved scenario, flat, without what does not change the measurement."""
    return dict(_flat({k: v for k, v in scenario.items() if k not in _NOT_MEASURED}, ""))


def _flat(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        return [
            pair for key, item in value.items() for pair in _flat(item, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list | tuple) and value:
        return [pair for i, item in enumerate(value) for pair in _flat(item, f"{path}.{_name(item, i)}")]
    return [(path, value)]


def _name(item: Any, index: int) -> str:
    return str(item["name"]) if isinstance(item, Mapping) and "name" in item else str(index)


def differences(a: Entry, b: Entry) -> list[str]:
    """Fields in which two runs differ that must agree: ``cores: 2, then 4``; empty = comparable."""
    found = []
    for one, other in ((a.fingerprint, b.fingerprint), (a.setup, b.setup)):
        for name in sorted({*one, *other}):
            if one.get(name) != other.get(name):
                found.append(f"{name}: {one.get(name, 'absent')}, then {other.get(name, 'absent')}")
    return found
