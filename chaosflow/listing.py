"""Tables of what can be used here: faults, probes, scenarios, capabilities."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterable

import yaml
from annotated_types import Ge, Gt
from pydantic.fields import FieldInfo
from rich.table import Table
from rich.text import Text

from chaosflow import scenarios_dir
from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.core.host import Host, TargetHandle
from chaosflow.orchestrator.catalogue import load_atoms, load_probes
from chaosflow.orchestrator.plan import Row


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _first_line(item: type) -> str:
    return (inspect.getdoc(item) or "").splitlines()[0].replace("``", "")


def faults() -> Table:
    """Every fault atom with its params; ``*`` = required."""
    table = _table("type", "params", "what it does")
    for atom in load_atoms():
        params = ", ".join(
            f"{name}{'*' if field.is_required() else ''}" for name, field in atom.model_fields.items()
        )
        names = atom.kind + "".join(f"\n(alias {alias})" for alias in atom.aliases)
        table.add_row(names, params or "–", _first_line(atom))
    return table


def probes() -> Table:
    table = _table("probe", "what it watches")
    for probe in load_probes():
        table.add_row(probe.name, _first_line(probe))
    return table


def scenarios() -> Table:
    """Shipped scenarios: run them by their bare name."""
    table = _table("scenario", "what it shows")
    for path in sorted(scenarios_dir().rglob("*.yaml")):
        name = path.relative_to(scenarios_dir()).with_suffix("").as_posix()
        table.add_row(name, str(yaml.safe_load(path.read_text()).get("description", "")).strip())
    return table


def capabilities(rows: Iterable[Row]) -> Table:
    """The capability table of one scenario."""
    table = _table("", "what", "name", "type", "how, or why not")
    for row in rows:
        table.add_row(_sign(row.capability), row.what, row.name, row.kind, _words(row.capability))
    return table


def doctor() -> Table:
    """Every atom and probe against the included engine on this machine, each with smallest params."""
    host = Host("doctor", TargetHandle(True, "http://127.0.0.1:0/v1"), planning=True)
    table = _table("", "what", "type", "how, or why not")
    for atom in load_atoms():
        capability = _ask(atom, host)
        table.add_row(_sign(capability), "fault", atom.kind, _words(capability))
    for probe in load_probes():
        capability = probe.check(host)
        table.add_row(_sign(capability), "probe", probe.name, _words(capability))
    return table


def _ask(atom: type[FaultAtom], host: Host) -> Capability:
    # unvalidated: what is asked for together or instead does not matter to whether this kind can work here
    values = {
        name: _smallest(field) if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in atom.model_fields.items()
    }
    return atom.model_construct(None, **values).check(host)


def _smallest(field: FieldInfo) -> str | float:
    """The least that a required parameter can ask for: its lower bound, or a folder that everybody may write."""
    if field.annotation is str:
        return tempfile.gettempdir()
    bounds = [m.ge if isinstance(m, Ge) else m.gt for m in field.metadata if isinstance(m, Ge | Gt)]
    least = max([float(str(bound)) for bound in bounds], default=0.0)
    return max(1, int(least)) if field.annotation is int else least


def _sign(capability: Capability) -> Text:
    return Text("✓", style="green") if capability.ok else Text("✗", style="red")


def _words(capability: Capability) -> str:
    if not capability.ok:
        return capability.reason + (f"; {capability.remedy}" if capability.remedy else "")
    return capability.rung + (" (simulated)" if capability.simulated else "")
