"""What a caller decides about a run, and what a run leaves to its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaosflow.core.errors import ExitCode
from chaosflow.core.result import RunResult
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.orchestrator.stopping import Stop


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller decides about a run, apart from the scenario."""

    runs_dir: Path = Path("runs")
    command: Sequence[str] = ()
    metrics: LiveMetrics = field(default_factory=LiveMetrics)
    """Told what the run does; may be served (metrics/server.py), and go on over several runs."""
    stop: Stop | None = None
    """Where the caller asks this run to end; None: the process's signals do."""
    history: Path | None = None
    """The history file; None = ``history.sqlite`` below ``runs_dir``."""
    session: str = ""
    """The nightly that the run is part of."""


@dataclass(slots=True)
class Ended:
    """What a run leaves to its caller."""

    result: RunResult
    folder: Path
    exit_code: ExitCode
    reports: dict[str, str] = field(default_factory=dict)
    not_undone: list[str] = field(default_factory=list)
    """Manual commands, one for each fault that could not be undone."""
    trouble: str = ""
    """Why the reports could not be written."""
