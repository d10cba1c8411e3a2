"""The folder of one run: everything that was measured, as it is measured.

A disk that fills up in mid-run stops the writing, not the run: the first failure becomes a note.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import orjson

from chaosflow.core.environment import HIDDEN, Secrets
from chaosflow.core.errors import UsageError
from chaosflow.core.slots import CELLS_FILE, CellBatch
from chaosflow.orchestrator.series import Row, csv_header, csv_line

SERIES_FILE, PROBES_FILE = "series.csv.gz", "probes.csv.gz"


def new_run_id(scenario_name: str) -> str:
    """``20261129-183145-quickstart-3f9a``: sorts by time, unique on this machine.

    Short enough that a Unix socket below it keeps within the kernel's 107 bytes (unix(7)).
    """
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{scenario_name[:32]}-{secrets.token_hex(2)}"


class Redactor:
    """Replaces every secret in texts and data by ``***``; a short one in its own field only (core.environment)."""

    def __init__(self, secret_values: Iterable[str]) -> None:
        self._spellings = Secrets(values=set(secret_values)).spellings()

    def text(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        return text

    def data(self, data: Any) -> Any:
        """The same structure with every string redacted."""
        match data:
            case str():
                return self.text(data)
            case dict():
                return {self.text(str(key)): self.data(value) for key, value in data.items()}
            case list() | tuple():
                return [self.data(item) for item in data]
            case _:
                return data


class RunDir:
    """``runs/<id>/``: events, facts, cells, series, probe readings, raw records, logs/, and the reports.

    Facts are what a killed run is judged and reported from (rebuild.py): each is on its way to the disk when
    ``fact`` returns.
    """

    def __init__(self, path: Path, redactor: Redactor, on_trouble: Callable[[str], None]) -> None:
        self.path, self.redactor, self._on_trouble = path, redactor, on_trouble
        self.logs, self.records = path / "logs", path / "records"
        self._files: dict[str, BufferedIOBase | None] = {}
        self._flushed_at = time.monotonic()

    @classmethod
    def create(cls, base: Path, run_id: str, redactor: Redactor, on_trouble: Callable[[str], None]) -> RunDir:
        """Make the folder. Raises UsageError where it cannot be written."""
        made = cls(base / run_id, redactor, on_trouble)
        try:
            for folder in (made.path, made.logs, made.records):
                folder.mkdir(parents=True)
            probe = made.path / ".writable"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as e:
            raise UsageError(
                f"folder of the run {made.path}", f"cannot be written ({e.strerror})",
                "free some space, or choose another place with --runs-dir",
            ) from e  # fmt: skip
        return made

    def event(self, at_s: float, what: str, text: str) -> None:
        """One line of the run's log."""
        line = {"at_s": round(at_s, 3), "what": what, "text": self.redactor.text(text)}
        self._append("events.jsonl", orjson.dumps(line) + b"\n", flush=True)

    def fact(self, what: str, data: Any) -> None:
        """One thing that a rebuilt report needs to know."""
        line = {"what": what, "data": self.redactor.data(data)}
        self._append("facts.jsonl", json.dumps(line).encode() + b"\n", flush=True)

    def cells(self, batch: CellBatch) -> None:
        wire = batch.to_wire()
        if batch.worst:
            wire["worst"] = self.redactor.data(wire["worst"])
        self._append(CELLS_FILE, orjson.dumps(wire) + b"\n", flush=self._flush_due())

    def series_row(self, row: Row) -> None:
        """One second of the charts' data."""
        text = csv_line(row) if SERIES_FILE in self._files else csv_header() + csv_line(row)
        self._append(SERIES_FILE, text.encode(), flush=False)

    def reading(self, at_s: float, series: str, value: float) -> None:
        """One reading of a probe."""
        text = f"{at_s:.3f},{series},{value:.9g}\n"
        self._append(
            PROBES_FILE,
            (text if PROBES_FILE in self._files else f"t_s,series,value\n{text}").encode(),
            flush=False,
        )

    def _flush_due(self) -> bool:
        """Every two seconds: what is not flushed is lost when the run is killed."""
        now = time.monotonic()
        due = now - self._flushed_at > 2
        if due:
            self._flushed_at = now
            for name in (SERIES_FILE, PROBES_FILE):
                if (file := self._files.get(name)) is not None:
                    self._guarded(name, file.flush)
        return due

    def artifacts(self) -> dict[str, str]:
        """Name -> path below the folder, of what has been written so far apart from the reports."""
        names = {
            "scenario": "scenario.json", "events": "events.jsonl", "facts": "facts.jsonl", "cells": CELLS_FILE,
            "series": SERIES_FILE, "probes": PROBES_FILE, "records": "records", "logs": "logs",
        }  # fmt: skip
        return {name: file for name, file in names.items() if (self.path / file).exists()}

    def json(self, name: str, data: Any) -> None:
        """Write one small JSON file, redacted."""
        text = json.dumps(
            self.redactor.data(data), indent=2
        )  # which, unlike orjson, takes integers of any size
        self._guarded(name, lambda: (self.path / name).write_text(text + "\n"))

    def _append(self, name: str, data: bytes, *, flush: bool) -> None:
        def write() -> None:
            if name not in self._files:
                path = self.path / name
                # kept open for the whole run
                opened = gzip.open(path, "ab", 4) if name.endswith(".gz") else path.open("ab")  # noqa: SIM115
                self._files[name] = opened
            file = self._files[name]
            if file is not None:
                file.write(data)
                if flush:
                    file.flush()

        if not self._guarded(name, write):
            file, self._files[name] = self._files.get(name), None  # given up: half a line is worse than none
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()

    def _guarded(self, name: str, work: Callable[[], Any]) -> bool:
        try:
            work()
        except OSError as e:
            self._on_trouble(f"{self.path / name} is incomplete: {e.strerror}")
            return False
        return True

    def close(self) -> None:
        for name, file in self._files.items():
            if file is not None:
                self._guarded(name, file.close)


def owner_of_runs() -> tuple[int, int] | None:
    """The user who called sudo, so that root's runs are not root's files."""
    if os.geteuid() == 0 and "SUDO_UID" in os.environ:
        return int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "0"))
    return None


def hand_over(path: Path) -> None:
    """Give a run's folder to the user behind sudo. Never raises."""
    owner = owner_of_runs()
    if owner is None:
        return
    for item in (path, *path.rglob("*")):
        try:
            os.chown(item, *owner, follow_symlinks=False)
        except OSError as e:
            sys.stderr.write(f"{item}: {e.strerror}\n")
