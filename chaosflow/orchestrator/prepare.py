"""From a scenario's name to a run that is ready to begin: what every caller does before anything is touched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaosflow import scenarios_dir
from chaosflow.core.errors import ChaosflowError, ScenarioError, UsageError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loader import Loaded, load_scenario
from chaosflow.core.probe import Probe
from chaosflow.core.registry import Registry
from chaosflow.core.units import counted
from chaosflow.engine.infer.models import MODELS
from chaosflow.gpu.specs import GPUS
from chaosflow.orchestrator import plan as planning
from chaosflow.orchestrator.catalogue import load_atoms, load_probes
from chaosflow.orchestrator.guards import check_guards
from chaosflow.orchestrator.loadplaces import load_place_issues
from chaosflow.orchestrator.options import Ended, Options
from chaosflow.orchestrator.progress import View
from chaosflow.orchestrator.run import Run
from chaosflow.orchestrator.timeline import Timeline, build_timeline, conflicts


@dataclass(frozen=True, slots=True)
class Prepared:
    """A valid scenario with its timeline, and what it is made of."""

    loaded: Loaded
    timeline: Timeline
    atoms: Registry[FaultAtom]
    probes: Registry[Probe]
    warnings: tuple[str, ...] = ()
    """What a person should know before it runs; secrets hidden."""

    async def execute(self, options: Options, view: View) -> Ended:
        """Run it; see ``Run.execute``. No error that leaves this shows a secret."""
        with hiding(self.loaded):
            return await Run(self.loaded, self.timeline, self.atoms, self.probes, options, view).execute()


def prepare(source: Path | str, overrides: Sequence[str] = ()) -> Prepared:
    """Load and check a scenario, a file or a shipped one by its bare name. Reads only.

    Raises ScenarioError with every problem at once, each with its place in the file.
    """
    atoms, probes = load_atoms(), load_probes()
    known = {
        "probes": probes.names(),
        "target.engine.gpu": list(GPUS),
        "target.engine.model": list(MODELS),
    }
    loaded = load_scenario(
        source, atoms=atoms, shipped=scenarios_dir(), overrides=overrides, known_values=known
    )
    with hiding(loaded):
        timeline = build_timeline(loaded.scenario, loaded.atoms)
        guarded = check_guards(loaded.scenario, timeline)
        proxied = [name for name, atom in loaded.atoms.items() if atom.needs_proxy]
        issues = [
            *guarded.issues,
            *load_place_issues(loaded.scenario, proxied),
            *conflicts(timeline, planning.planning_host(loaded.scenario)),
        ]
        if issues:
            raise ScenarioError(loaded.problems(issues))
        warnings = [*guarded.warnings, *planning.undecidable(loaded.scenario, timeline)]
    return Prepared(loaded, timeline, atoms, probes, tuple(loaded.hide(w) for w in warnings))


def require_no_warnings(prepared: Prepared) -> None:
    """What ``--strict`` asks for. Raises UsageError."""
    if prepared.warnings:
        count = counted(len(prepared.warnings), "warning")
        raise UsageError(str(prepared.loaded.path), f"{count}, which --strict makes errors")


@contextlib.contextmanager
def hiding(loaded: Loaded) -> Iterator[None]:
    """An error that leaves this block shows no secret of the scenario."""
    try:
        yield
    except ChaosflowError as e:
        e.args = (loaded.hide(str(e)),)
        raise
