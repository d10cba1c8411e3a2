"""The JSON schema of a scenario, for editors: completion, and squiggles under what cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chaosflow.core.fault import FaultAtom
from chaosflow.core.scenario import Scenario

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{env:"}
_TYPED = frozenset({"integer", "number", "boolean"})


def json_schema(atoms: Iterable[type[FaultAtom]]) -> dict[str, Any]:
    """A draft 2020-12 schema; ``params`` of each fault follow from its ``type`` (``if``/``then``).

    It knows less than the loader: references between faults, the grammar of objectives and what a
    model checks as a whole are not in it. ``${env:…}`` is accepted wherever a number may stand.
    """
    schema = Scenario.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    step = definitions["FaultStep"]
    kinds: list[str] = []
    rules: list[dict[str, Any]] = []
    for atom in atoms:
        names = [atom.kind, *atom.aliases]
        kinds += names
        rules.append(_rule(atom, names, definitions))
    step["properties"]["type"] = {"enum": kinds, "description": "Kind of fault."}
    step["allOf"] = rules
    schema["title"] = "ChaosFlow scenario"
    result: dict[str, Any] = _accept_environment(schema)
    return {"$schema": _DIALECT, **result}


def _rule(atom: type[FaultAtom], names: list[str], definitions: dict[str, Any]) -> dict[str, Any]:
    """``if type is one of names then params are ...``, and a duration where there is one to give."""
    params = atom.model_json_schema(by_alias=True)
    for name, definition in params.pop("$defs", {}).items():
        definitions[name] = definition
    if atom.reversible:
        params["properties"] = {
            **params.get("properties", {}),
            "duration_sec": {"type": "number", "description": "Another spelling of the fault's 'duration'."},
        }
    then: dict[str, Any] = {"properties": {"params": params}}
    if params.get("required"):
        then["required"] = ["params"]
    if not atom.reversible:
        then["properties"]["duration"] = False
    return {"if": {"properties": {"type": {"enum": names}}, "required": ["type"]}, "then": then}


def _accept_environment(schema: Any) -> Any:
    """Wherever a number or a boolean is wanted, a reference to the environment will do."""
    if isinstance(schema, list):
        return [_accept_environment(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _accept_environment(value) for key, value in schema.items()}
    if isinstance(inner.get("type"), str) and inner["type"] in _TYPED:
        kept = {k: inner.pop(k) for k in ("title", "description", "default") if k in inner}
        return {**kept, "anyOf": [inner, _FROM_ENVIRONMENT]}
    return inner
