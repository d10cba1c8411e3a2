"""The history file: SQLite, one row per run and one per metric. Two runs may write at once.

WAL, so that readers never wait for a writer; ``user_version`` is the schema's version. A file on
read-only media can be read; one of a newer ChaosFlow is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from chaosflow.core.errors import UsageError
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import Key, Value

HISTORY_FILE = "history.sqlite"
WAIT_S = 10.0
"""How long a write waits for another process's."""

T = TypeVar("T")

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        exit_code INTEGER NOT NULL,
        reason TEXT NOT NULL,
        started_utc TEXT NOT NULL,
        wall_s REAL NOT NULL,
        aborted INTEGER NOT NULL,
        version TEXT NOT NULL,
        seed INTEGER NOT NULL,
        series TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        setup TEXT NOT NULL,
        folder TEXT NOT NULL,
        session TEXT NOT NULL
    );
    CREATE INDEX run_by_name ON run (name, started_utc);
    CREATE TABLE metric (
        run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
        segment TEXT NOT NULL,
        name TEXT NOT NULL,
        value REAL NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (run, segment, name)
    ) WITHOUT ROWID;
    """,
)
"""Script i brings a file from version i to i + 1. Never change one that was released."""

_COLUMNS = (
    "run_id, name, state, exit_code, reason, started_utc, wall_s, aborted, version, seed, "
    "fingerprint, setup, folder, session"
)


class History:
    """An open history file; a context manager. Every method raises UsageError in words."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._db = path, connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """For reading and writing; made where missing, brought to this version where older."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(
                f"history {path}", f"cannot be made ({e.strerror})", "choose another place with --history"
            ) from e
        with _in_words(path):
            db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
            try:
                _refuse_foreign(db, path)
                _patiently(lambda: db.execute("PRAGMA journal_mode=WAL").fetchone())
                db.execute("PRAGMA synchronous=NORMAL")
                db.execute("PRAGMA foreign_keys=ON")
                _migrate(db, path)
            except BaseException:
                db.close()
                raise
            return cls(path, db)

    @classmethod
    def read(cls, path: Path) -> Self:
        """For reading only, also from read-only media; UsageError where there is none."""
        if not path.is_file():
            raise UsageError(
                f"history {path}",
                "is no regular file" if path.exists() else "there is none yet",
                "every 'chaosflow run' adds to it; --history names another",
            )
        if _writable(path):
            try:
                return cls.open(path)
            except UsageError as e:  # a full disk can still be read from
                if not isinstance(e.__cause__, sqlite3.OperationalError) or "locked" in str(e):
                    raise
        with _in_words(path):
            try:
                return cls(path, _connect_reading(path, "mode=ro"))
            except sqlite3.OperationalError:
                # needs neither a -shm file nor a lock: where those cannot be made, nobody can write either
                return cls(path, _connect_reading(path, "immutable=1"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def add(self, entry: Entry) -> None:
        """Write one run with its metrics, whole or not at all; a run that is there already is replaced."""
        with _in_words(self.path), _transaction(self._db):
            self._db.execute("DELETE FROM run WHERE run_id = ?", (entry.run_id,))
            row = self._db.execute(
                f"INSERT INTO run ({_COLUMNS}, series) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    entry.run_id, entry.name, entry.state, entry.exit_code, entry.reason, entry.started_utc,
                    entry.wall_s, entry.aborted, entry.version, entry.seed,
                    json.dumps(entry.fingerprint, sort_keys=True), json.dumps(entry.setup, sort_keys=True),
                    self._relative(entry.folder), entry.session, entry.series,
                ),
            ).lastrowid  # fmt: skip
            self._db.executemany(
                "INSERT INTO metric (run, segment, name, value, n) VALUES (?,?,?,?,?)",
                [(row, segment, name, v.value, v.n) for (segment, name), v in entry.values.items()],
            )

    def entries(self, name: str | None = None, last: int | None = None) -> list[Entry]:
        """Runs, oldest first; of one scenario, or the ``last`` so many only."""
        where, arguments = ("WHERE name = ?", [name]) if name is not None else ("", [])
        limit = "" if last is None else f"LIMIT {int(last)}"
        return self._select(f"{where} ORDER BY started_utc DESC, id DESC {limit}", arguments)[::-1]

    def find(self, run_id: str) -> Entry | None:
        """The run of that id; None where there is none."""
        return next(iter(self._select("WHERE run_id = ?", [run_id])), None)

    def folder(self, entry: Entry, runs_dir: Path | None = None) -> Path | None:
        """Where a run's folder is now; None where it was deleted or moved out of reach."""
        top = self.path.parent
        places = [top / entry.folder] if entry.folder else []
        places += [place / entry.run_id for place in (top, runs_dir) if place is not None]
        return next((place for place in places if place.is_dir()), None)

    def prune(self, before_utc: str) -> int:
        """Forget runs that began before that time; how many. Touches no run's folder."""
        with _in_words(self.path), _transaction(self._db):
            return self._db.execute("DELETE FROM run WHERE started_utc < ?", (before_utc,)).rowcount

    def _select(self, tail: str, arguments: Sequence[object]) -> list[Entry]:
        with _in_words(self.path):
            rows = self._db.execute(f"SELECT id, {_COLUMNS} FROM run {tail}", arguments).fetchall()
            values = self._values([row[0] for row in rows])
            return [_entry(row, values.get(number, {})) for number, *row in rows]

    def _values(self, numbers: Sequence[int]) -> dict[int, dict[Key, Value]]:
        found: dict[int, dict[Key, Value]] = {}
        for begin in range(0, len(numbers), 500):  # SQLite takes a bounded number of ?
            part = numbers[begin : begin + 500]
            marks = ",".join("?" * len(part))
            query = f"SELECT run, segment, name, value, n FROM metric WHERE run IN ({marks})"
            for run, segment, name, value, n in self._db.execute(query, part):
                with _row_in_words(f"metric {name!r} of row {run}"):
                    found.setdefault(run, {})[segment, name] = Value(float(value), int(n))
        return found

    def _relative(self, folder: str) -> str:
        if not folder:
            return ""
        top, path = self.path.parent.resolve(), Path(folder).resolve()
        return str(path.relative_to(top)) if path.is_relative_to(top) else str(path)


def _entry(row: Sequence[Any], values: dict[Key, Value]) -> Entry:
    """One row of the table ``run``. Raises DatabaseError where somebody else wrote into it."""
    columns = dict(zip(_COLUMNS.split(", "), row, strict=True))
    with _row_in_words(f"run {columns['run_id']!r}"):
        columns |= {name: dict(json.loads(columns[name])) for name in ("fingerprint", "setup")}
        columns["wall_s"], columns["aborted"] = float(columns["wall_s"]), bool(columns["aborted"])
        columns["exit_code"], columns["seed"] = int(columns["exit_code"]), int(columns["seed"])
        for name in ("run_id", "name", "state", "reason", "started_utc", "folder", "session"):
            if not isinstance(columns[name], str):
                raise TypeError(f"{name} is no text")
        return Entry(**columns, values=values)


@contextmanager
def _row_in_words(what: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as e:
        raise sqlite3.DatabaseError(f"malformed: {what}: {e}") from e


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _connect_reading(path: Path, how: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
    try:
        version = _version(db, path)
        if version < len(MIGRATIONS):
            raise UsageError(
                f"history {path}",
                f"has the older schema version {version} and cannot be written",
                "copy it to where it can",
            )
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 <= version <= len(MIGRATIONS):
        raise UsageError(
            f"history {path}",
            f"has schema version {version}, this ChaosFlow knows up to {len(MIGRATIONS)}",
            "use the newer ChaosFlow that made it, or another file with --history",
        )
    return version


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    """Raise UsageError where the file is no history this ChaosFlow may write to. Changes nothing."""
    if _version(db, path):
        return
    # in one statement: another process may be making the tables, together with their version
    query = "SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    version, tables = db.execute(query).fetchone()
    if version == 0 and tables:
        raise UsageError(
            f"history {path}", "is a database of something else", "choose another file with --history"
        )


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this version; a second process that comes at the same time waits."""
    if _version(db, path) == len(MIGRATIONS):
        return
    with _transaction(db):
        for version in range(_version(db, path), len(MIGRATIONS)):
            for statement in MIGRATIONS[version].split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _patiently(work: Callable[[], T]) -> T:
    """The switch to WAL does not wait for a lock by itself."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            return work()
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) or time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        remedy = "choose another file with --history"
        if "locked" in str(e):
            remedy = "another process holds it; try again"
        elif isinstance(e, sqlite3.DatabaseError) and ("malformed" in str(e) or "not a database" in str(e)):
            remedy = "move it away; a new one is begun"
        raise UsageError(f"history {path}", str(e), remedy) from e
