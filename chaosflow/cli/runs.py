"""Which run is meant: a folder, an id, the beginning of one, or ``latest``; and which history it belongs to."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from chaosflow.core.errors import UsageError
from chaosflow.reports.history.store import HISTORY_FILE, History
from chaosflow.reports.writer import RESULT_FILE

LATEST = "latest"
_MARKS_OF_A_RUN = (RESULT_FILE, "scenario.json")
"""One of them lies in every run's folder; in a nightly's or a sweep's own there is none."""
_STAMP = re.compile(r"\d{8}-\d{6}")
_SHOWN = 6


def run_folder(run: Path, runs_dir: Path, history: Path | None = None) -> Path:
    """The folder of the run that is meant; reads only.

    Sought below ``runs_dir`` (a sweep's points too), then where the history says it is. Raises UsageError where
    there is none, or where the beginning of an id is that of several.
    """
    for folder in (run, runs_dir / run):
        if folder.is_dir():
            return folder
    word = str(run)
    found = _below(runs_dir)
    if word == LATEST:
        return _latest(found, runs_dir)
    if begun := _beginning(word, found):
        return _only(word, begun)
    known = _known(runs_dir, history or runs_dir / HISTORY_FILE)
    if begun := _beginning(word, known):
        return _only(word, begun)
    raise UsageError(
        word,
        f"there is no such run, neither here nor below {runs_dir}",
        f"name a run's folder, its id or the beginning of it, or '{LATEST}'; chaosflow history lists them",
    )


def _below(runs_dir: Path) -> dict[str, Path]:
    """Id -> folder."""
    return {
        path.parent.name: path.parent
        for depth in ("*", "*/*")
        for name in _MARKS_OF_A_RUN
        for path in runs_dir.glob(f"{depth}/{name}")
    }


def _known(runs_dir: Path, history: Path) -> dict[str, Path]:
    """The runs of a history whose folders are still there; none where it cannot be read."""
    found: dict[str, Path] = {}
    with contextlib.suppress(UsageError), History.read(history) as opened:
        for entry in opened.entries():
            if (folder := opened.folder(entry, runs_dir)) is not None:
                found[entry.run_id] = folder
    return found


def _beginning(word: str, found: dict[str, Path]) -> dict[str, Path]:
    """Those whose id begins so; one that is it to the letter comes alone."""
    if word in found:
        return {word: found[word]}
    return {name: folder for name, folder in found.items() if name.startswith(word)}


def _only(word: str, begun: dict[str, Path]) -> Path:
    if len(begun) > 1:
        raise UsageError(
            word, f"{len(begun)} runs begin so: {_few(begun)}", f"write more of the id, or '{LATEST}'"
        )
    return next(iter(begun.values()))


def _few(names: Iterable[str]) -> str:
    newest = sorted(names, reverse=True)
    more = len(newest) - _SHOWN
    return ", ".join(newest[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _latest(found: dict[str, Path], runs_dir: Path) -> Path:
    """The one that began last: ids begin with their second, folders tell those of one second apart."""
    if not found:
        raise UsageError(
            LATEST, f"there is no run below {runs_dir} yet", "name the folder of the runs with --runs-dir"
        )
    return max(found.values(), key=lambda folder: (_second(folder), _made_ns(folder)))


def _second(folder: Path) -> str:
    """``20261129-183145``; empty for a folder that somebody named anew."""
    match = _STAMP.match(folder.name)
    return match[0] if match else ""


def _made_ns(folder: Path) -> int:
    """When the run wrote its first file that stays."""
    times = [(folder / name).stat().st_mtime_ns for name in _MARKS_OF_A_RUN if (folder / name).exists()]
    return min(times, default=0)


def history_of(folder: Path, runs_dir: Path, history: Path | None) -> Path | None:
    """The history that a run belongs to: the named one, else that of ``runs_dir`` where it lies below it.

    A folder elsewhere belongs to the history beside it; None where there is none: looking at a copy begins none.
    """
    if history is not None:
        return history
    if folder.resolve().is_relative_to(runs_dir.resolve()):
        return runs_dir / HISTORY_FILE
    beside = folder.resolve().parent / HISTORY_FILE
    return beside if beside.is_file() else None
