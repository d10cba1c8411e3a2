"""``chaosflow run --dry-run``: the timeline, every mutation it would make and its manual undo."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaosflow import listing
from chaosflow.core.errors import ChaosflowError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import Host, ProxyHandle
from chaosflow.core.journal import folder_of
from chaosflow.core.loader import Loaded
from chaosflow.core.probe import Probe
from chaosflow.core.registry import Registry
from chaosflow.core.units import format_duration
from chaosflow.orchestrator import plan as planning
from chaosflow.orchestrator.timeline import Timeline

_RUN = "RUN"


def show(console: Console, loaded: Loaded, timeline: Timeline, probes: Registry[Probe]) -> None:
    """Print it. Reads only; raises CapabilityError, after the tables, when a fault cannot work here."""
    scenario = loaded.scenario
    console.print(
        Text(
            f"{scenario.name}: {format_duration(timeline.total_s)} in all, nothing is changed now",
            style="bold",
        )
    )
    console.print(_timeline(loaded, timeline))
    console.print()
    for line in _undone(loaded, timeline):
        console.print(Text(line), soft_wrap=True)  # a command must be copied as a whole
    console.print()
    rows = planning.capability_table(scenario, loaded.atoms, probes)
    console.print(listing.capabilities(rows))
    planning.require_faults(rows)


def _timeline(loaded: Loaded, timeline: Timeline) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, justify in (
        ("from", "right"),
        ("to", "right"),
        ("what", "left"),
        ("mutation", "left"),
    ):
        no_wrap = column in ("from", "to")
        table.add_column(column, justify=justify, overflow="fold", no_wrap=no_wrap)  # type: ignore[arg-type]
    zero = (
        timeline.baseline_s
    )  # faults count from the baseline's end, everything that is shown from its beginning
    table.add_row(_s(-timeline.warmup_s), _s(0), "warm-up", "")
    table.add_row(_s(0), _s(zero), "baseline", "")
    for step in sorted(timeline.steps, key=lambda s: s.inject_s):
        to_s = "" if step.revert_s is None else _s(zero + step.revert_s)
        mutation = Text(f"{step.atom.kind} {_params(step.atom)}".strip())
        table.add_row(_s(zero + step.inject_s), to_s, f"fault {step.name}", mutation)
        what = "recovery" if step.recovery_measured else f"recovery, not measured: {step.unmeasured_because}"
        table.add_row(
            _s(zero + step.recovery_begin_s),
            _s(zero + step.recovery_end_s),
            f"{what} from {step.name}",
            "",
        )
    return table


def _undone(loaded: Loaded, timeline: Timeline) -> list[str]:
    """How each fault is undone without ChaosFlow; ``RUN`` stands for the run's id."""
    hosts = [_host(loaded, run_id) for run_id in (_RUN, f"{_RUN}-")]
    lines = []
    for step in sorted(timeline.steps, key=lambda s: s.inject_s):
        what = "cannot be undone"
        if step.revert_s is not None:
            what = f"undone by: {_by_hand(step.atom, step.name, hosts) or step.atom.undone_by}"
        lines.append(f"{step.name}, {what}")
    if any(_RUN in line for line in lines):
        lines.append(
            f"{_RUN} is the id that the run prints first. The run itself, and chaosflow heal, undo all of it."
        )
    return lines


def _host(loaded: Loaded, run_id: str) -> Host:
    """As the atoms would see it, with the places where the run will put its own things."""
    host, folder = planning.planning_host(loaded.scenario, run_id), folder_of(run_id)
    vgpu = folder / "vgpu.state" if host.target.vgpu_state else None
    return replace(
        host, target=replace(host.target, vgpu_state=vgpu), proxy=ProxyHandle(folder / "proxy.sock")
    )


def _by_hand(atom: FaultAtom, name: str, hosts: list[Host]) -> str:
    """The very command, where it is known before the run; else nothing. Reads only."""
    commands = set()
    for host in hosts:
        try:
            undo = asyncio.run(atom.plan(host, name))
        except (ChaosflowError, OSError):  # a target that is not there yet, or cannot bear it
            return ""
        commands.add(undo.manual.replace(host.run_id, _RUN))
    # a name that is drawn from the run's id differs from one run to the next
    return commands.pop() if len(commands) == 1 else ""


def _params(atom: FaultAtom) -> str:
    """What was asked for, and the defaults that do something: not every 0, no and none of a kind with thirty."""
    values = atom.model_dump(exclude_none=True)
    told = {name: value for name, value in values.items() if value or name in atom.model_fields_set}
    return ", ".join(f"{k}={v:.12g}" if isinstance(v, float) else f"{k}={v}" for k, v in told.items())


def _s(seconds: float) -> str:
    return f"{seconds:+.1f} s"
