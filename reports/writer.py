"""The files of a finished run: written whole or not at all, and none of them keeps another from being written."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.core.result import SCHEMA_VERSION, RunResult
from chaosflow.reports.junit import render_junit

RESULT_FILE, REPORT_FILE, JUNIT_FILE = "result.json", "report.html", "junit.xml"
FILES = {"result": RESULT_FILE, "report": REPORT_FILE, "junit": JUNIT_FILE}
"""Artifact name -> path below the run's folder."""


def write_all(result: RunResult, folder: Path) -> dict[str, str]:
    """Write ``result.json``, ``report.html`` and ``junit.xml`` into ``folder`` (made where missing).

    Returns artifact name -> path below ``folder``; ``result.json`` lists these too. Each file appears
    whole or not at all, and an older one stays until then. Every file is tried, whatever happens to the
    others; then one ChaosflowError names all that failed. Does not change ``result``.
    """
    whole = result.model_copy(update={"artifacts": {**result.artifacts, **FILES}})
    writers: dict[str, Callable[[RunResult], str]] = {
        "result": result_json,
        "report": _render_html,
        "junit": render_junit,
    }
    written: dict[str, str] = {}
    failures: list[str] = []
    for name, render in writers.items():
        try:
            write_atomically(folder / FILES[name], render(whole))
            written[name] = FILES[name]
        except Exception as error:  # a bug in one report may not cost the others
            failures.append(f"{FILES[name]}: {error_words(error)}")
    if failures:
        kept = ", ".join(sorted(written.values())) or "nothing"
        raise ChaosflowError(
            str(folder),
            f"could not write {'; '.join(failures)}",
            f"written: {kept}; free some space, then 'chaosflow report {folder.name}' writes the reports again",
        )
    return written


def result_json(result: RunResult) -> str:
    """The content of ``result.json`` (docs/result-schema.md)."""
    return result.model_dump_json(indent=1) + "\n"


def load_result(folder: Path) -> RunResult:
    """The result of a run, from its folder or from the path of a ``result.json``.

    Raises UsageError where there is none, or where another version of ChaosFlow wrote it.
    """
    path = folder if folder.is_file() else folder / RESULT_FILE
    try:
        if path.exists() and not path.is_file():  # a fifo would be waited for, and /dev/zero never ends
            raise OSError(errno.EINVAL, "it is no regular file")
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            str(path),
            "there is no result here",
            "name a run's folder, such as runs/<id>; of a killed run, 'chaosflow report' makes one",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            str(path), f"cannot be read: {error_words(error)}", "run the scenario again"
        ) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise UsageError(
            str(path),
            f"has schema version {version}, this ChaosFlow reads version {SCHEMA_VERSION}",
            "use the ChaosFlow that made it (its version stands in the file)",
        )
    try:
        return RunResult.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            str(path), f"is not a result of ChaosFlow: {where}: {first['msg']}", "run the scenario again"
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text by way of a temporary file beside it; leaves none behind. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", errors="replace"))
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _render_html(result: RunResult) -> str:
    from chaosflow.reports.html import render_html  # Bokeh takes most of a second to import

    return render_html(result)


def error_words(error: Exception) -> str:
    """``No space left on device``; with its kind where it is none of the system's."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"
