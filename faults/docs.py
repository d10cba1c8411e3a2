"""Writes docs/faults.md from the atoms themselves: ``python -m chaosflow.faults.docs > docs/faults.md``.

Parameters, units and ranges come from the fields and the lines below them; ``acts_on``, ``requires`` and
``cannot`` are class variables of an atom, ``resource`` and ``composes`` what the timeline uses.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import chaosflow.faults
from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.registry import Registry

_HEAD = """\
# Fault atoms

<!-- Generated: python -m chaosflow.faults.docs > docs/faults.md -->

A fault is one step of a scenario: `type` is one of the kinds below, `params` are its parameters, and `duration` (not a parameter) says how long it acts. `chaosflow list faults` shows the same, `chaosflow doctor` says which of them can work on this machine and what the others lack. Every effect is verified after the injection and again before the revert: a fault that cannot be seen makes the run `invalid`. So does a `net.*`, `proxy.*` or `stream.*` fault that had nothing to act on until its revert: give it traffic, or more time.

A parameter is required where no default is given. *Composes* = two of this kind may act on one resource at once; whatever does not is refused at the same time, in one scenario and between two runs. Units: 1 MiB = 1048576 bytes, 1 KB = 1000 bytes; `percent` of CPU is of one CPU.

| kind | what it does | parameters | acts on | needs | limits and notes |
|---|---|---|---|---|---|
"""

_TAIL = """
## Helpers, cgroups and floors

The `host.*` faults that put pressure on the machine do it by helper processes. Each dies with the process that injected it (PR_SET_PDEATHSIG), carries `CHAOSFLOW_RUN=<run>` and `CHAOSFLOW_FAULT=<run>/<fault>` in its environment, and as root lives in a cgroup `chaosflow/<run>.<fault>` that the undo kills as a whole. Disk space is held by files without a name, so that it is free again the moment the helper ends.

A pressure fault keeps a floor: of memory the larger of 10 % and 512 MiB, of a file system the larger of 5 % and 1 GiB stays free. More is refused before the run, and given back while it acts.

Limits are set on the cgroup that the target already lives in (version 1 or 2), and refused where strangers share it: start the target by `systemd-run --scope COMMAND`, or in a container. A container's own cgroup is one (`process: {container: ID}`).

## Names of the toxics

`proxy.*` and `stream.*` act through a proxy of ChaosFlow's own, which is in the path from the first request on, so that the baseline carries its cost too. Its control API is a Unix socket that speaks Toxiproxy's vocabulary (`GET /proxies/target/toxics`); a toxic is named like the fault (`<fault>.downstream` and `<fault>.upstream` for `direction: both`), and its `stats` say what it did. A toxic acts on connections that are already open. It is removed without losing a byte: what was delayed arrives when it was due, in order.

## Adding one

One file in `faults/` with one subclass of `chaosflow.core.fault.FaultAtom`: the fields are the parameters, with units in their names and a line below each that says what the name does not. `check` reads only; `plan` returns the prior state; `inject` makes it so; `is_active` looks for the effect itself, and says by `met` whether anything has come of it yet; `revert` puts the prior state back, from a fresh process, twice. `acts_on`, `requires` and `cannot` are its words for this page. Then a rig in `tests/contract/`: the contract tests find the rest. A toxic is one file in `faults/proxy/toxics/`.
"""


def page() -> str:
    """The whole page, of ChaosFlow's own atoms; plug-ins are left out. Changes nothing."""
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
    registry.scan(chaosflow.faults, "")
    return _HEAD + "".join(_row(registry.get(kind)) for kind in registry.names()) + _TAIL


def _row(atom: type[FaultAtom]) -> str:
    aliases = "".join(f", `{alias}`" for alias in atom.aliases)
    name = f"`{atom.kind}`" + (f" (also {aliases[2:]})" if aliases else "")
    parameters = "; ".join(_parameters(atom)) or "–"
    summary, _, more = (inspect.getdoc(atom) or "").replace("``", "`").partition("\n\n")
    notes = " ".join(part for part in (more, _words(atom, "cannot")) if part) or "–"
    needs = _words(atom, "requires") or ("nothing" if atom.needs_proxy else "–")
    cells = [name, summary, parameters, _acts_on(atom), needs, notes]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def _words(atom: type[FaultAtom], name: str) -> str:
    return str(getattr(atom, name, ""))


def _acts_on(atom: type[FaultAtom]) -> str:
    what = _words(atom, "acts_on")
    resource = ", ".join(f"`{name}`" for name in sorted(_example(atom).resource(_planning_host())))
    composes = "composes" if atom.composes else "does not compose"
    end = "" if atom.reversible else "; cannot be undone: recovery counts from the injection"
    return f"{what and what + '; '}resource {resource}, {composes}{end}"


def _planning_host() -> Host:
    return Host("docs", TargetHandle(True, "http://127.0.0.1:0/v1"), planning=True)


def _example(atom: type[FaultAtom]) -> FaultAtom:
    """An atom of defaults; a required field shows as its own name in capitals."""
    values: dict[str, Any] = {
        name: name.upper() if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in atom.model_fields.items()
    }
    return atom.model_construct(None, **values)


def _parameters(atom: type[FaultAtom]) -> Iterator[str]:
    words: dict[str, str] = {}
    for owner in reversed(atom.__mro__):
        if issubclass(owner, FaultAtom) and owner is not FaultAtom:
            words |= _field_words(owner)
    for name, field in atom.model_fields.items():
        text = " ".join(part for part in (_range(field), _default(field)) if part)
        described = words.get(name, "")
        yield f"`{name}`" + (f" {text}" if text else "") + (f": {described}" if described else "")


def _field_words(owner: type) -> dict[str, str]:
    """The string below each field, which Python itself throws away."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError):
        return {}
    found, last = {}, ""
    assert isinstance(tree.body[0], ast.ClassDef)
    for node in tree.body[0].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            text = " ".join(inspect.cleandoc(str(node.value.value)).split()).replace("``", "`")
            found[last], last = text.rstrip("."), ""
        else:
            last = ""
    return found


def _range(field: FieldInfo) -> str:
    """``> 0, <= 100``, ``read | write``, in the words of the field's own constraints."""
    if choices := _choices(field.annotation):
        return " | ".join(choices)
    signs = {"gt": "> ", "ge": ">= ", "lt": "< ", "le": "<= ", "multiple_of": "a multiple of "}
    parts = [
        f"{sign}{_number(getattr(bound, name))}"
        for bound in field.metadata
        for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]
    return ", ".join(parts)


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _default(field: FieldInfo) -> str:
    if field.is_required() or field.default is PydanticUndefined or field.default is None:
        return "(optional)" if field.default is None else ""
    shown = _number(field.default) if isinstance(field.default, float) else str(field.default)
    return f"(default {shown.lower() if isinstance(field.default, bool) else shown})"


if __name__ == "__main__":
    sys.stdout.write(page())
