"""What pydantic found, in plain words: the thing, what was given, what is wanted, what may be meant."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from chaosflow.core.units import counted, did_you_mean
from chaosflow.core.yamltree import Path

Explanation = tuple[str, str]
"""(message, remedy)."""

_WANTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
}
_BOUND = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def data_path(loc: tuple[int | str, ...], data: Any) -> Path:
    """Pydantic's location as a path in the data: names of union members are left out."""
    path: list[int | str] = []
    for number, step in enumerate(loc):
        last = number == len(loc) - 1
        if isinstance(data, dict):
            if step in data:
                data = data[step]
            elif not last:
                continue
            path.append(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
            path.append(step)
    return tuple(path)


def explain(error: ErrorDetails, data: Any, model: type[BaseModel], shown: str | None) -> Explanation:
    """One pydantic error as (message, remedy). ``shown`` stands in for the value where it is secret."""
    kind, ctx, given = error["type"], error.get("ctx", {}), error["input"]
    value = shown if shown is not None else show(given)
    path = data_path(error["loc"], data)
    key = path[-1] if path else "the scenario"
    if kind == "missing":
        return f"{key!r} is missing{_under(path)}", f"add '{error['loc'][-1]}: …'"
    if kind == "extra_forbidden":
        return _unknown_key(error["loc"], path, data, model)
    if kind in _WANTED:
        return _wrong_type(kind, key, given, value)
    if kind in _BOUND:
        name, word = _BOUND[kind]
        return f"{key} must be {word} {ctx[name]}, given {value}", ""
    if kind in ("literal_error", "enum"):
        known = [w.strip("' ") for w in str(ctx["expected"]).replace(" or ", ", ").split(",")]
        hint = did_you_mean(given, known) if isinstance(given, str) else ""
        return f"{key} must be {_one_of(known)}, given {value}", hint
    if kind == "union_tag_invalid":
        known = [w.strip("' ") for w in str(ctx["expected_tags"]).split(",")]
        hint = did_you_mean(str(ctx["tag"]), known)
        return f"{key}: kind must be {_one_of(known)}, given {ctx['tag']!r}", hint
    if kind == "union_tag_not_found":
        return f"{key}: 'kind' is missing", "add 'kind: …'"
    if kind == "too_short":
        return _too_short(path, ctx)
    if kind == "too_long":
        return f"{key} may hold at most {ctx['max_length']} items, given {ctx['actual_length']}", ""
    if kind == "string_pattern_mismatch":
        return f"{key} {value} may hold letters, digits, '-', '_' only, and at most 64 of them", ""
    if kind in ("value_error", "assertion_error"):
        return _own_words(error, key, path, shown), ""
    return f"{key}: {error['msg'].replace('Input should be', 'must be')}, given {value}", ""


def show(value: Any) -> str:
    """A value for a message: short, and with the words for its type that a person uses."""
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:57]!r}…"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list | tuple):
        return "a list"
    return text if len(text := repr(value)) <= 60 else f"{text[:57]}…"


def _own_words(error: ErrorDetails, key: object, path: Path, shown: str | None) -> str:
    text = str(error.get("ctx", {}).get("error", error["msg"]))
    given = error["input"]
    if shown is not None and isinstance(given, str) and given:
        text = text.replace(repr(given), shown).replace(given, shown)
    return f"{key}: {text}" if path and str(key) not in text and not isinstance(key, int) else text


def _wrong_type(kind: str, key: object, given: Any, value: str) -> Explanation:
    what = f"item {key + 1} of the list" if isinstance(key, int) else key
    if given is None:
        return f"{what} must be {_WANTED[kind]}, but is empty", "give it a value, or remove the key"
    message = f"{what} must be {_WANTED[kind]}, given {value}"
    if kind == "string_type" and isinstance(given, int | float | bool):
        return message, f'put it in quotes: "{value}"'
    if kind.startswith(("int", "float")) and isinstance(given, str) and _is_number(given):
        return message, "remove the quotes"
    if kind in ("list_type", "tuple_type"):
        return message, "write one '- …' line for each item, or [a, b]"
    return message, ""


def _too_short(path: Path, ctx: dict[str, Any]) -> Explanation:
    if path[-1:] == ("objectives",):
        return "no objectives: nothing would be judged", "add one, for example 'ttft.p95 <= 200ms'"
    return f"{path[-1] if path else 'it'} needs at least {counted(ctx.get('min_length', 1), 'item')}", ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _under(path: Path) -> str:
    above = [str(p) for p in path[:-1]]
    return f" in {'.'.join(above)}" if above else ""


def _one_of(known: list[str]) -> str:
    return known[0] if len(known) == 1 else f"one of {', '.join(known)}"


def _unknown_key(loc: tuple[int | str, ...], path: Path, data: Any, model: type[BaseModel]) -> Explanation:
    key = str(path[-1])
    known = known_keys(model, loc[:-1], data)
    message = f"unknown key {key!r}{_under(path)}"
    if hint := did_you_mean(key, known):
        return message, hint
    homes = [".".join(p) for name, p in _all_keys(model) if name == key]
    if homes:
        return message, f"it belongs under {homes[0] or 'the top level'}"
    return message, f"known keys: {', '.join(known)}" if known else ""


def known_keys(model: type[BaseModel], loc: tuple[int | str, ...], data: Any) -> list[str]:
    """The keys that a mapping at ``loc`` of ``model`` may have."""
    here: list[type[BaseModel]] = [model]
    for step in loc:
        if isinstance(step, int):
            continue
        below = [m for at in here for m in _models_in(_annotation(at, step))]
        # a step that is no field is the name of a union's member
        here = below or [m for m in here if _tag(m) == step] or here
    return [name for m in here for name in _names(m)]


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _annotation(model: type[BaseModel], key: str) -> Any:
    for name, found in model.model_fields.items():
        if key in (name, found.alias):
            return found.annotation
    return None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, list, Annotated):
        return [m for part in get_args(annotation) for m in _models_in(part)]
    return []


def _tag(model: type[BaseModel]) -> str | None:
    kind = model.model_fields.get("kind")
    if kind is None or get_origin(kind.annotation) is not Literal:
        return None
    return str(get_args(kind.annotation)[0])


def _all_keys(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, field in model.model_fields.items():
        yield field.alias or name, above
        for below in _models_in(field.annotation):
            yield from _all_keys(below, (*above, field.alias or name))
