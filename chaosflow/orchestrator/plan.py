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
from chaosflow.core.slo import probes_needed
from chaosflow.core.units import counted
from chaosflow.linux import finding, procs
from chaosflow.orchestrator.target import handle_before_start
from chaosflow.orchestrator.timeline import Timeline
from chaosflow.sla.outlook import Assumptions, Outlook, level, outlooks
from chaosflow.sla.plan import shortfalls


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the capability table."""

    what: str
    """``target``, ``fault`` or ``probe``."""
    name: str
    kind: str
    capability: Capability
    needed: bool = False
    """A probe that an objective reads: without it the run does not begin."""


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
    rows += [Row("fault", name, atom.kind, ask(atom, host)) for name, atom in atoms.items()]
    needed = probes_needed(scenario.sla.parsed())
    rows += [Row("probe", n, n, probes.get(n).check(host), n in needed) for n in scenario.probes]
    return rows


def _target(scenario: Scenario) -> Capability | None:
    """Whether the processes of a ``url`` target can be found; None when none were asked for."""
    if scenario.target.process is None:
        return None
    try:
        found, selector = finding.find(scenario.target.process)
    except CapabilityError as e:
        return Capability.no(e.cause, e.remedy)
    return Capability.yes(f"{selector}: {procs.describe(found)}")


def ask(atom: FaultAtom, host: Host) -> Capability:
    """Whether a fault can work on this target. Reads only."""
    if atom.needs_proxy and host.target.url.startswith("https://") and atom.kind.startswith("stream."):
        return Capability.no(
            "the target speaks TLS, in which no token boundary can be seen", "use its plain-text port"
        )
    return atom.check(host)


def require_faults(rows: list[Row]) -> None:
    """Raise CapabilityError naming every fault, and every probe that an objective needs, that cannot work."""
    cannot = [row for row in rows if (row.what != "probe" or row.needed) and not row.capability.ok]
    if not cannot:
        return
    causes = "\n".join(
        f"{row.name} ({row.kind}): {row.capability.reason}"
        + (f"; {row.capability.remedy}" if row.capability.remedy else "")
        for row in cannot
    )
    raise CapabilityError(
        "scenario", f"{counted(len(cannot), 'thing')} cannot work here, nothing was touched\n{causes}"
    )


def pieces_of(timeline: Timeline) -> dict[str, list[tuple[float, float]]]:
    """Where every judged segment is planned, in seconds from the start of the load."""
    lead_s = timeline.lead_in_s
    return {
        name: [(begin + lead_s, end + lead_s) for begin, end in pieces]
        for name, pieces in timeline.segment_spans.items()
    }


def forecast(
    scenario: Scenario, timeline: Timeline, assumptions: Assumptions | None = None
) -> tuple[list[Outlook], float]:
    """What the run will be able to decide, and the level of one test. Reads at most a trace's file."""
    objectives, names = scenario.sla.parsed(), frozenset(step.name for step in scenario.faults)
    rows = outlooks(
        objectives,
        pieces_of(timeline),
        scenario.load,
        names,
        window_s=scenario.sla.window,
        assumptions=assumptions,
    )
    return rows, level(rows, objectives)


def undecidable(scenario: Scenario, timeline: Timeline) -> list[str]:
    """Every objective that cannot pass with the requests that are planned: one line each, its worst segment."""
    names = frozenset(step.name for step in scenario.faults)
    short = shortfalls(
        scenario.sla.parsed(), pieces_of(timeline), scenario.load, names, window_s=scenario.sla.window
    )
    lines = []
    for text in dict.fromkeys(s.objective.text for s in short):
        same = [s for s in short if s.objective.text == text]
        worst = max(same, key=lambda s: s.needed - s.planned)
        others = f" (and {len(same) - 1} more segments)" if len(same) > 1 else ""
        lines.append(worst.text + others)
    return lines
