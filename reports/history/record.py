"""The end of every run: its row in the history. Whatever goes wrong here is a note, never a failed run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.result import RunResult
from chaosflow.reports.history.entry import entry_of
from chaosflow.reports.history.store import History

NOT_RECORDED = "not in the history"
"""How the note of a run begins that could not be recorded."""


def record_run(
    result: RunResult, folder: Path, history: Path, session: str = "", owner: tuple[int, int] | None = None
) -> str:
    """Add a run to the history file; returns why it could not, in words, or an empty string. Never raises.

    ``owner``: user and group the files are handed to, where root writes for somebody else.
    """
    return guarded(history, lambda: _add(result, folder, history, session), owner)


def record_killed(
    result: RunResult, folder: Path, history: Path, owner: tuple[int, int] | None = None
) -> str:
    """Add a run that was killed, as far as it could be rebuilt; once, however often. Returns and never raises: as above.

    A row that the run wrote itself before it died says more, and stays.
    """
    return guarded(history, lambda: _add_late(result, folder, history), owner)


def _add(result: RunResult, folder: Path, history: Path, session: str) -> None:
    with History.open(history) as opened:
        opened.add(entry_of(result, folder, session))


def _add_late(result: RunResult, folder: Path, history: Path) -> None:
    with History.open(history) as opened:
        known = opened.find(result.run_id)
        if known is None or known.aborted:
            opened.add(entry_of(result, folder, "" if known is None else known.session))


def guarded(history: Path, work: Callable[[], None], owner: tuple[int, int] | None = None) -> str:
    """Why ``work`` on the history failed, or an empty string."""
    try:
        work()
        if owner is not None:
            for path in (history, *history.parent.glob(f"{history.name}-*")):
                os.chown(path, *owner)
    except ChaosflowError as e:
        return f"{NOT_RECORDED}: {e}"
    except OSError as e:
        return f"{NOT_RECORDED}: {history}: {e.strerror}"
    except Exception as e:  # a bug here may not cost the run
        return f"{NOT_RECORDED}: {history}: {type(e).__name__}: {e}"
    return ""
