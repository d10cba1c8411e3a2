"""A document's data against a pydantic model: strict types, the environment's values typed by their field."""

from __future__ import annotations

import copy
import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chaosflow.core.checks import Issue
from chaosflow.core.environment import Secrets, as_scalar
from chaosflow.core.explain import data_path, explain
from chaosflow.core.yamltree import Document, Path

M = TypeVar("M", bound=BaseModel)

_ROUNDS = 5
_STAND_INS: dict[tuple[str, ...], Any] = {
    ("sla", "objectives"): "error_rate <= 100%",
    ("abort",): "error_rate > 100% for 1s",
    ("probes",): "engine",
    ("faults",): {"name": "stand-in", "type": "stand-in"},
}
"""What replaces a broken list item while the rest is searched for further problems."""


def validate(
    document: Document, base: Path, model: type[M], secrets: Secrets
) -> tuple[M | None, list[Issue]]:
    """The model of the data at ``base``, or None; problems of single fields go to the document.

    What concerns the model as a whole is returned: the caller knows whether a better explanation exists.
    """
    data = document.get(base)
    while True:
        try:
            return _strict(model, data), []
        except ValidationError as e:
            errors = e.errors(include_url=False)
        if not _retype(errors, data, base, secrets):
            break
    whole: list[Issue] = []
    rest, taken = copy.deepcopy(data), set[Path]()
    for _ in range(_ROUNDS):  # a broken field hides what its model as a whole would say
        for error in errors:
            if error["type"] != "missing" or data_path(error["loc"], rest) not in taken:  # told as broken
                whole += _report(document, base, error, rest, model, secrets)
        if not _prune(errors, rest, base, taken):
            break
        try:
            _strict(model, rest)
        except ValidationError as e:
            errors = e.errors(include_url=False)
        else:
            break
    return None, whole


def _strict(model: type[M], data: Any) -> M:
    # JSON mode: strict about numbers and text, yet a list is good for a tuple and a word for an enum
    return model.model_validate_json(json.dumps(data), strict=True)


def _retype(errors: list[ErrorDetails], data: Any, base: Path, secrets: Secrets) -> bool:
    """Give fields that refused an environment's text the number or boolean that it spells."""
    changed = False
    for error in errors:
        path = data_path(error["loc"], data)
        if (*base, *path) not in secrets.whole or not path:
            continue
        holder = _holder(data, path)
        typed = as_scalar(holder[path[-1]]) if isinstance(holder[path[-1]], str) else holder[path[-1]]
        if not isinstance(typed, str):
            secrets.whole.discard((*base, *path))
            holder[path[-1]] = typed
            changed = True
    return changed


def _report(
    document: Document, base: Path, error: ErrorDetails, data: Any, model: type[BaseModel], secrets: Secrets
) -> list[Issue]:
    path = data_path(error["loc"], data)
    full: Path = (*base, *path)
    hidden = secrets.fields.get(full)
    shown = None if hidden is None else "the environment's value"
    message, remedy = explain(error, data, model, shown)
    if not path:
        return [Issue(base, secrets.hide(message), remedy)]
    if error["type"] == "union_tag_invalid":
        document.report((*full, "kind"), message, remedy)
        return []
    at_key = error["type"] in ("extra_forbidden", "missing") or isinstance(error["input"], dict)
    document.report(full, secrets.hide(message), remedy, at_key=at_key)
    return []


def _prune(errors: list[ErrorDetails], data: Any, base: Path, taken: set[Path]) -> bool:
    """Take the broken fields out, and note them in ``taken``; False when there was none to take out."""
    pruned = False
    for error in errors:
        path = data_path(error["loc"], data)
        if not path or error["type"] == "missing":
            continue
        try:
            holder = _holder(data, path)
            whole_model = error["type"] == "value_error" and isinstance(holder[path[-1]], dict)
            if whole_model:
                continue
            if isinstance(holder, dict):
                del holder[path[-1]]
                taken.add(path)
            else:
                stand_in = _STAND_INS.get(tuple(str(p) for p in (*base, *path[:-1])))
                if stand_in is None:
                    continue
                holder[path[-1]] = copy.deepcopy(stand_in)
            pruned = True
        except (KeyError, IndexError, TypeError):
            continue
    return pruned


def _holder(data: Any, path: Path) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data
