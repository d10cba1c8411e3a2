"""Before anything is touched: can every fault and probe of this scenario work here, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.core.host import Host
from chaosflow.core.probe import Probe
from chaosflow.core.registry import Registry
from chaosflow.core.scenario import Scenario
from chaosflow.linux import procs
from chaosflow.orchestrator.target import handle_before_start
from chaosflow.orchestrator.timeline import Timeline
from chaosflow.sla.plan import shortfalls


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the capability table."""

    what: str
    """``target``, ``fault`` or ``probe``."""
    name: str
    kind: str
    capability: Capability


def planning_host(scenario: Scenario, run_id: str = "plan") -> Host:
    """The host as atoms see it while nothing is started. Reads only."""
    vgpu = Path("vgpu.state") if scenario.target.engine and scenario.target.engine.backend == "sim" else None
    return Host(run_id, handle_before_start(scenario.target, vgpu), planning=True)


def capability_table(
    scenario: Scenario, atoms: Mapping[str, FaultAtom], probes: Registry[Probe]
) -> list[Row]:
    """Ask every fault and probe of a scenario whether it can work here. Reads only."""
    host = planning_host(scenario)
    rows = [Row("target", host.target.url, "process", found)] if (found := _target(scenario)) else []
    rows += [Row("fault", name, atom.kind, _ask(atom, host)) for name, atom in atoms.items()]
    rows += [Row("probe", name, name, probes.get(name).check(host)) for name in scenario.probes]
    return rows


def _target(scenario: Scenario) -> Capability | None:
    """Whether the processes of a ``url`` target can be found; None when none were asked for."""
    if scenario.target.process is None:
        return None
    try:
        found, selector = procs.find(scenario.target.process)
    except CapabilityError as e:
        return Capability.no(e.cause, e.remedy)
    return Capability.yes(f"{selector}: {procs.describe(found)}")


def _ask(atom: FaultAtom, host: Host) -> Capability:
    if atom.needs_proxy and host.target.url.startswith("https://") and atom.kind.startswith("stream."):
        return Capability.no(
            "the target speaks TLS, in which no token boundary can be seen", "use its plain-text port"
        )
    return atom.check(host)


def require_faults(rows: list[Row]) -> None:
    """Raise CapabilityError naming every fault that cannot work, its cause and its remedy."""
    cannot = [row for row in rows if row.what != "probe" and not row.capability.ok]
    if not cannot:
        return
    causes = "\n".join(
        f"{row.name} ({row.kind}): {row.capability.reason}"
        + (f"; {row.capability.remedy}" if row.capability.remedy else "")
        for row in cannot
    )
    raise CapabilityError(
        "scenario", f"{len(cannot)} thing(s) cannot work here, nothing was touched\n{causes}"
    )


def undecidable(scenario: Scenario, timeline: Timeline) -> list[str]:
    """Every objective that cannot pass with the requests that are planned: one line each, its worst segment."""
    names = frozenset(step.name for step in scenario.faults)
    short = shortfalls(
        scenario.sla.parsed(), timeline.segment_s, scenario.load, names, window_s=scenario.sla.window
    )
    lines = []
    for text in dict.fromkeys(s.objective.text for s in short):
        same = [s for s in short if s.objective.text == text]
        worst = max(same, key=lambda s: s.needed - s.planned)
        others = f" (and {len(same) - 1} more segments)" if len(same) > 1 else ""
        lines.append(worst.text + others)
    return lines
