"""``chaosflow run --dry-run``: the timeline, every mutation it would make and its manual undo."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaosflow import listing
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loader import Loaded
from chaosflow.core.probe import Probe
from chaosflow.core.registry import Registry
from chaosflow.core.units import format_duration
from chaosflow.orchestrator import plan as planning
from chaosflow.orchestrator.timeline import Timeline


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
    rows = planning.capability_table(scenario, loaded.atoms, probes)
    console.print(listing.capabilities(rows))
    planning.require_faults(rows)


def _timeline(loaded: Loaded, timeline: Timeline) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, justify in (
        ("from", "right"),
        ("to", "right"),
        ("what", "left"),
        ("mutation, and what undoes it", "left"),
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
        undo = "cannot be undone" if step.revert_s is None else f"undone by: {step.atom.undone_by}"
        mutation = f"{step.atom.kind} {_params(step.atom)}".strip()
        table.add_row(_s(zero + step.inject_s), to_s, f"fault {step.name}", Text(f"{mutation}\n{undo}"))
        what = "recovery" if step.recovery_measured else f"recovery, not measured: {step.unmeasured_because}"
        table.add_row(
            _s(zero + step.recovery_begin_s),
            _s(zero + step.recovery_end_s),
            f"{what} from {step.name}",
            "",
        )
    return table


def _params(atom: FaultAtom) -> str:
    """What was asked for, and the defaults that do something: not every 0, no and none of a kind with thirty."""
    values = atom.model_dump(exclude_none=True)
    told = {name: value for name, value in values.items() if value or name in atom.model_fields_set}
    return ", ".join(f"{k}={v:.12g}" if isinstance(v, float) else f"{k}={v}" for k, v in told.items())


def _s(seconds: float) -> str:
    return f"{seconds:+.1f} s"
