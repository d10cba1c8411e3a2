"""``--set load.arrival.rate_per_s=40``: change a scenario's data by path, before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaosflow.core.units import did_you_mean
from chaosflow.core.yamltree import Document, Path, Place, parse_inline

_MAX_STEPS = 16
_URL_ONLY = ("url", "process", "health", "api_key", "i_own")


def apply_overrides(document: Document, overrides: Sequence[str]) -> None:
    """Carry out every ``PATH=VALUE``; VALUE is YAML. What cannot be carried out becomes a problem.

    A fault is named in the path by its name or its number from 0. An unknown key is not noticed here
    but by the check that follows, which then names the option.
    """
    for text in overrides:
        _apply(document, text)


def _apply(document: Document, text: str) -> None:
    place = Place("--set " + (text if len(text) <= 200 else text[:199] + "…"))
    dotted, equals, value_text = text.partition("=")
    steps = dotted.strip().split(".")
    if not equals or not all(steps):
        document.problems.append(
            place.problem("cannot read it", "write PATH=VALUE, for example load.arrival.rate_per_s=40")
        )
        return
    if len(steps) > _MAX_STEPS:
        document.problems.append(
            place.problem(f"the path has {len(steps)} parts", "no scenario is that deep")
        )
        return
    inline = parse_inline(value_text, place.file) if value_text.strip() else Document(place.file)
    if inline.problems:
        document.problems += inline.problems
        return
    parent, path = _walk(document, place, steps)
    if parent is None:
        return
    _forget(document, path)
    parent[path[-1]] = inline.data
    for end in range(1, len(path) + 1):
        document.keys.setdefault(path[:end], place)
    document.keys[path] = document.values[path] = place
    for below, where in inline.values.items():
        document.values[path + below] = document.keys[path + below] = where
    _swap_target(document, path)


def _walk(document: Document, place: Place, steps: list[str]) -> tuple[Any, Path]:
    """The container to write into (made where absent) and the full path; None after a problem."""
    if document.data is None:
        document.data = {}
    here: Any = document.data
    path: Path = ()
    for number, step in enumerate(steps):
        key = _key_in(here, path, step)
        if isinstance(key, str) and not isinstance(here, dict):
            known = _names(here) if isinstance(here, list) else []
            hint = did_you_mean(step, known) or (f"there are: {', '.join(known)}" if known else "")
            what = ".".join(map(str, path)) or "the scenario"
            cause = f"nothing is named {step!r} in {what}" if known else f"{what} has no parts to set"
            document.problems.append(place.problem(cause, hint))
            return None, path
        path = (*path, key)
        if number == len(steps) - 1:
            return here, path
        if isinstance(here, dict) and here.get(key) is None:
            here[key] = {}
        here = here[key]
    return None, path


def _key_in(here: Any, path: Path, step: str) -> str | int:
    if not isinstance(here, list):
        return step
    if path == ("faults",) and step in (names := _names(here)):
        return names.index(step)
    return int(step) if step.isdecimal() and int(step) < len(here) else step


def _names(items: list[Any]) -> list[str]:
    return [str(i.get("name", n)) if isinstance(i, dict) else str(n) for n, i in enumerate(items)]


def _forget(document: Document, path: Path) -> None:
    """Drop what was known about the old value: its places, and problems that it had are moot."""
    for places in (document.keys, document.values):
        for old in [p for p in places if p[: len(path)] == path]:
            del places[old]
    for old in [p for p in document.reported if p[: len(path)] == path]:
        if (problem := document.reported.pop(old)) in document.problems:
            document.problems.remove(problem)


def _swap_target(document: Document, path: Path) -> None:
    """The included engine and the user's own server exclude each other: the one that is set wins."""
    if path[:1] != ("target",) or len(path) < 2 or not isinstance(target := document.data["target"], dict):
        return
    if path[1] == "url":
        target.pop("engine", None)
    elif path[1] == "engine":
        for key in _URL_ONLY:
            target.pop(key, None)
