"""Questions to the raw records of a run: ``ttft > 200ms and outcome = ok``. Reads files only; no gevent here."""

from __future__ import annotations

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from chaosflow.core.errors import UsageError
from chaosflow.core.sample import Outcome
from chaosflow.core.units import did_you_mean, format_duration, parse_duration_s
from chaosflow.load.records import read_records

Row = dict[str, Any]

DURATIONS = ("sched", "lag", "ttft", "e2e", "tpot", "max_gap")
"""In seconds; ``sched`` counts from the start of the load."""
NUMBERS = ("j", "tokens", "events", "status", "worker", "user_stamps")
TEXTS = ("outcome", "finish_reason", "error", "segment")
FIELDS = (*NUMBERS, *DURATIONS, *TEXTS)
DEFAULT_COLUMNS = ("j", "sched", "ttft", "e2e", "max_gap", "tokens", "outcome", "segment")

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|==?|<|>|~)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def run_query(run: Path, where: Sequence[str] = (), *, sort: str = "", limit: int | None = None) -> list[Row]:
    """The requests of a run for which every condition holds.

    ``where``: ``FIELD OP VALUE`` with ``<  <=  >  >=  =  !=`` and ``~`` (text holds), several joined by ``and``;
    durations with unit (``ttft > 200ms``). A value that never came fulfils no condition but ``= none``. ``sort``: a
    field, ``-field`` for descending; what never came goes last. Raises UsageError.
    """
    tests = [parse_condition(part) for text in where for part in re.split(r"\s+and\s+", text.strip())]
    rows = [row for row in records_of(run) if all(test(row) for test in tests)]
    if sort:
        rows = _sorted(rows, sort)
    return rows if limit is None else rows[: max(0, limit)]


def records_of(run: Path) -> Iterator[Row]:
    """Every request of a run with the fields of ``FIELDS``; unsorted, worker after worker. Raises UsageError."""
    folder = run / "records" if (run / "records").is_dir() else run
    files = sorted(file for file in folder.glob("records-*.jsonl.gz") if _worker_of(file).isdigit())
    if not files:
        raise UsageError(str(run), "holds no records", "name the folder of a run, below runs/")
    segments = _Segments(run / "result.json")
    for file in files:
        try:
            for record in read_records(file):
                yield _row(record, int(_worker_of(file)), segments)
        except (ValueError, KeyError, TypeError, IndexError) as e:
            cause = f"holds a line that is no record ({type(e).__name__}: {e})"
            raise UsageError(str(file), cause, "take it away, or name another run") from e


def _worker_of(file: Path) -> str:
    return file.name.removeprefix("records-").removesuffix(".jsonl.gz")


def _row(record: Row, worker: int, segments: _Segments) -> Row:
    events, end, sched = record["event_us"], record["end_us"], record["sched_us"]
    tokens = record["tokens"] if record["tokens_by_usage"] else len(events)
    span = events[-1] - events[0] if len(events) > 1 and tokens > 1 else None
    return {
        "j": record["j"],
        "worker": worker,
        "sched": sched / 1e6,
        "lag": (record["fire_us"] - sched) / 1e6,
        "ttft": (events[0] - sched) / 1e6 if events else None,
        "e2e": None if end is None else (end - sched) / 1e6,
        "tpot": None if span is None else span / (tokens - 1) / 1e6,
        "max_gap": max(b - a for a, b in pairwise(events)) / 1e6 if len(events) > 1 else None,
        "tokens": record["tokens"],
        "events": len(events),
        "status": record["status"] or None,
        "user_stamps": record["user_stamps"],
        "outcome": record["outcome"],
        "finish_reason": record["finish_reason"] or None,
        "error": record["error"] or None,
        "segment": segments.of(sched / 1e6, (sched if end is None else end) / 1e6),
    }


class _Segments:
    """Where in the run a request was: faults, else edges that its life touched, else where it was wanted."""

    def __init__(self, result: Path) -> None:
        self._spans: list[Row] = []
        self._zero_s = 0.0
        if result.is_file():
            try:
                self._spans = json.loads(result.read_text()).get("segments") or []
            except ValueError as e:
                raise UsageError(str(result), f"is no JSON: {e}") from e
            self._zero_s = min((span["begin_s"] for span in self._spans), default=0.0)

    def of(self, sched_s: float, end_s: float) -> str | None:
        begin, end = sched_s + self._zero_s, end_s + self._zero_s
        touched = [s for s in self._spans if begin < s["end_s"] and s["begin_s"] <= end]
        faults = [span["name"] for span in touched if span["kind"] == "fault"]
        edges = [span["name"] for span in touched if span["kind"] == "edge"]
        here = [span["name"] for span in self._spans if span["begin_s"] <= begin < span["end_s"]]
        return ",".join(faults or edges or here) or None


def parse_condition(text: str) -> Callable[[Row], bool]:
    """``ttft > 200ms`` as a test of a row. Raises UsageError."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"condition {text!r}", "cannot be read", "write for example 'ttft > 200ms'")
    field, op, value = match[1], match[2].replace("==", "="), match[3]
    _check_field(field)
    if value.lower() in ("none", "null") and op in ("=", "!="):
        return lambda row: (row[field] is None) == (op == "=")
    if op == "~":
        return lambda row: value.lower() in str(row[field] or "").lower()
    if field in TEXTS and op not in ("=", "!="):
        raise UsageError(f"condition {text!r}", f"{field} is text", "use =, != or ~")
    wanted = _value(field, value, text)
    compare = _COMPARE[op]
    if field == "segment":
        return lambda row: (wanted in (row[field] or "").split(",")) == (op == "=")
    return lambda row: row[field] is not None and compare(row[field], wanted)


def _check_field(field: str) -> None:
    if field not in FIELDS:
        hint = did_you_mean(field, FIELDS) or f"there are {', '.join(FIELDS)}"
        raise UsageError(f"field {field!r}", "is not known", hint)


def _value(field: str, value: str, text: str) -> Any:
    if field in TEXTS:
        word = value.strip("'\"")
        known = [outcome.value for outcome in Outcome]
        if field == "outcome" and word not in known:  # else it finds nothing, as if all were well
            hint = did_you_mean(word, known) or "write 'outcome != ok' for whatever did not end well"
            raise UsageError(f"condition {text!r}", f"outcome is one of {', '.join(known)}", hint)
        return word
    try:
        return (
            parse_duration_s(value if value[-1:].isalpha() else float(value))
            if field in DURATIONS
            else float(value)
        )
    except ValueError as e:
        raise UsageError(f"condition {text!r}", str(e)) from e


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    field = sort.removeprefix("-")
    _check_field(field)
    there = [row for row in rows if row[field] is not None]
    there.sort(key=lambda row: row[field], reverse=sort.startswith("-"))
    return there + [row for row in rows if row[field] is None]


def summary(rows: Iterable[Row]) -> Row:
    """Counts by outcome, and nearest-rank percentiles in s (null where there is none) of the rows."""
    kept = list(rows)
    found: Row = {"requests": len(kept), "outcomes": dict(Counter(row["outcome"] for row in kept))}
    for field in ("ttft", "e2e", "max_gap", "lag"):
        values = sorted(row[field] for row in kept if row[field] is not None)
        found[field] = {f"p{q}": _nearest_rank(values, q / 100) for q in (50, 95, 99)}
    return found


def _nearest_rank(values: Sequence[float], q: float) -> float | None:
    return values[math.ceil(q * len(values)) - 1] if values else None


def table(rows: Sequence[Row], columns: Sequence[str] = DEFAULT_COLUMNS) -> str:
    """Rows as aligned text, a header first. Raises UsageError where a column is not known."""
    for column in columns:
        _check_field(column)
    lines = [list(columns), *([_cell(column, row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in TEXTS else cell.rjust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "sched":
        return f"{value:.3f} s"
    return format_duration(value) if column in DURATIONS else str(value)
