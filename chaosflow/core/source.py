"""Where a scenario's text comes from: a file, or a shipped scenario by its bare name."""

from __future__ import annotations

from pathlib import Path

from chaosflow.core.errors import ScenarioError
from chaosflow.core.units import did_you_mean
from chaosflow.core.yamltree import Place

_MAX_BYTES = 1 << 20
_SUFFIXES = (".yaml", ".yml")


def shipped_names(shipped: Path) -> list[str]:
    """The bare names of the scenarios that ship with ChaosFlow."""
    return sorted(p.stem for p in shipped.glob("*.yaml"))


def find_scenario(source: Path | str, shipped: Path) -> Path:
    """The file meant by a path or a bare name; a file of that very name wins over a shipped one.

    Raises ScenarioError with near names where there is none.
    """
    path = Path(source)
    try:
        if path.is_file():
            return path
    except OSError as e:  # a name too long, a folder that may not be entered
        raise _unreadable(path, e) from e
    bare = len(path.parts) == 1 and path.suffix not in _SUFFIXES
    if bare and str(source) in shipped_names(shipped):
        return shipped / f"{source}.yaml"
    if path.is_dir():
        raise _error(path, "is a folder", "name the scenario file in it")
    if path.exists():
        raise _error(path, "is not a regular file", "give a scenario file")
    names = shipped_names(shipped)
    nearby = [str(p) for s in _SUFFIXES for p in path.parent.glob(f"*{s}")] if path.parent.is_dir() else []
    shown = f"shipped scenarios: {', '.join(names)}"
    hint = did_you_mean(str(source), [*names, *nearby]) or did_you_mean(path.stem, names) or shown
    raise _error(path, "no such file" + (" and no shipped scenario" if bare else ""), hint)


def read_text(path: Path) -> str:
    """The file's text; raises ScenarioError where it cannot be read or is no UTF-8 text."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as e:
        raise _unreadable(path, e) from e
    if len(data) > _MAX_BYTES:
        raise _error(
            path,
            f"is larger than {_MAX_BYTES >> 20} MiB",
            "a scenario is a short text; is it the right file?",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        before = data[: e.start]
        place = Place(str(path), before.count(b"\n") + 1, e.start - (before.rfind(b"\n") + 1) + 1)
        byte = f"the byte 0x{data[e.start]:02x} is no UTF-8"
        raise ScenarioError([place.problem(byte, "save the file as UTF-8")]) from e


def _unreadable(path: Path, error: OSError) -> ScenarioError:
    return _error(path, f"cannot be read ({error.strerror})", "check the path and its permissions")


def _error(path: Path, cause: str, remedy: str) -> ScenarioError:
    return ScenarioError([Place(str(path)).problem(cause, remedy)])
