"""The JSON schema of ``result.json``, and docs/result-schema.md made of it.

``python -m chaosflow.reports.schema`` writes the page to standard output.
"""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any

from chaosflow.core import result as result_module
from chaosflow.core.result import SCHEMA_VERSION, RunResult

_INTRO = f"""\
# result.json, schema version {SCHEMA_VERSION}

Every run leaves `runs/<id>/result.json`; `report.html` and `junit.xml` are made of nothing else.
`chaosflow.reports.schema.result_schema()` is the JSON schema; this page is generated from it by
`python -m chaosflow.reports.schema`.

Numbers named `*_s` are seconds, `*_ms` milliseconds; moments count from the beginning of the baseline, so
the warm-up is negative. `null` means that there was no sample, never 0. Wall times are UTC, ISO 8601.
A field may be added without a new schema version; one is removed or changes its meaning only with one.
"""


def result_schema() -> dict[str, Any]:
    """JSON schema (2020-12) of ``result.json``, with a description for every documented field."""
    schema = RunResult.model_json_schema(mode="serialization")
    documented = _attribute_docs()
    parts = {**schema.get("$defs", {}), "RunResult": schema}
    for part, body in parts.items():
        for field, text in documented.get(part, {}).items():
            if field in body.get("properties", {}):
                body["properties"][field].setdefault("description", text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_page() -> str:
    """The Markdown of docs/result-schema.md."""
    schema = result_schema()
    parts = {"RunResult": schema, **schema["$defs"]}
    return _INTRO + "".join(_section(name, body) for name, body in parts.items())


def _section(name: str, body: dict[str, Any]) -> str:
    about = inspect.cleandoc(body.get("description", ""))
    required = set(body.get("required", []))
    lines = [f"\n## {name}\n"]
    if about and name != "RunResult":
        lines.append(f"\n{about}\n")
    lines.append("\n| field | type | meaning |\n|---|---|---|\n")
    for field, spec in body.get("properties", {}).items():
        always = "" if field in required or "default" not in spec else _default(spec["default"])
        text = " ".join(spec.get("description", "").split()).replace("|", "\\|")
        lines.append(f"| `{field}` | {_type(spec)} | {text}{always} |\n")
    return "".join(lines)


def _default(value: Any) -> str:
    return f" Default: `{value}`." if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _type(spec: dict[str, Any]) -> str:
    if "$ref" in spec:
        name = spec["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in spec:
        return " or ".join(_type(option) for option in spec["anyOf"])
    if spec.get("type") == "array":
        return f"list of {_type(spec.get('items', {}))}"
    if spec.get("type") == "object":
        values = spec.get("additionalProperties")
        return f"map of {_type(values)}" if isinstance(values, dict) and values else "map"
    return str(spec.get("type", "any"))


def _attribute_docs() -> dict[str, dict[str, str]]:
    """Class -> field -> the docstring below the field, read from the source of core/result.py."""
    docs: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(result_module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                docs.setdefault(node.name, {})[field.target.id] = inspect.cleandoc(str(below.value.value))
    return docs


if __name__ == "__main__":
    sys.stdout.write(schema_page())
