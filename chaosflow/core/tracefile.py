"""Recorded traffic: when requests came and how long they were, in the two formats that are published.

* Mooncake (JSON lines): ``timestamp`` in ms, ``input_length``, ``output_length``, ``hash_ids`` (one id for each
  block of 512 prompt tokens: equal ids are equal text; arXiv 2407.00079), or ``text_input`` as it stands;
* Azure LLM inference trace (CSV): ``TIMESTAMP`` (wall time), ``ContextTokens``, ``GeneratedTokens``; other
  columns are ignored.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from chaosflow.core.errors import UsageError

BLOCK_TOKENS = 512
MAX_TOKENS = 10_000_000
_LONGEST_S = 1e9
_GZIP = b"\x1f\x8b"
_LINE_END = re.compile(r"\r\n|\n|\r")


class TraceRow(NamedTuple):
    """One recorded request; ``at_s`` counts from the first one."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    """Mooncake's ``hash_ids``."""
    text: str = ""
    """The prompt itself, where the trace has it."""


@lru_cache(maxsize=4)
def read_trace(path: str) -> tuple[TraceRow, ...]:
    """The rows of a trace file (also ``.gz``), by time. Raises UsageError. Kept in memory, once a process."""
    return parse_trace(read_text(path), path)


def period_s(rows: Sequence[TraceRow]) -> float:
    """From the start of one pass to that of the next: the mean gap after the last request, as if another came."""
    return rows[-1].at_s + max(rows[-1].at_s / len(rows), 1e-3)


def arrivals_before(rows: Sequence[TraceRow], at_s: float, repeat: bool) -> int:
    """Requests of a replay, at its recorded speed, that come before ``at_s``."""
    passes, into_s = divmod(at_s, period_s(rows)) if repeat else (0, at_s)
    return round(passes) * len(rows) + bisect_left(rows, into_s, key=lambda row: row.at_s)


def read_text(path: str) -> str:
    """A UTF-8 text file without its byte-order mark, unpacked where it is gzip. Raises UsageError."""
    if Path(path).exists() and not Path(path).is_file():  # a pipe or a device may never end
        raise UsageError(path, "is not a regular file", "name a file")
    try:
        data = Path(path).read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise UsageError(path, f"is no UTF-8 text ({e.reason} at byte {e.start})", "convert it") from e
    except (OSError, EOFError, zlib.error, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise UsageError(path, reason, f"paths count from {Path.cwd()}") from e


def lines_of(text: str) -> list[str]:
    """Its lines. Not ``splitlines``: U+2028 and its like may stand inside a JSON string."""
    return _LINE_END.split(text.removeprefix("\ufeff"))


def parse_trace(text: str, name: str) -> tuple[TraceRow, ...]:
    """The rows of a trace's text; the format is told by its first character. Raises UsageError."""
    lines = lines_of(text)
    parse = _mooncake if text.lstrip("\ufeff \r\n").startswith("{") else _azure
    try:
        rows = sorted(parse(lines), key=lambda row: row.at_s)
    except _BadRow as e:
        raise UsageError(name, str(e), "use Mooncake's JSON lines or the CSV of an Azure LLM trace") from e
    if not rows:
        raise UsageError(name, "holds no request", "use another trace")
    first_s = rows[0].at_s
    if rows[-1].at_s - first_s > _LONGEST_S:
        raise UsageError(name, "spans more than 30 years", "look at its times: Mooncake's are in ms")
    return tuple(row._replace(at_s=row.at_s - first_s) for row in rows)


class _BadRow(ValueError):
    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why}")


def _mooncake(lines: Iterable[str]) -> list[TraceRow]:
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(_mooncake_row(json.loads(line)))
        except KeyError as e:
            raise _BadRow(number, f"{e.args[0]!r} is missing") from e
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise _BadRow(number, str(e)) from e
    return rows


def _mooncake_row(row: dict[str, Any]) -> TraceRow:
    text = str(row.get("text_input") or "")
    prompt_tokens = (
        int(row["input_length"]) if not text else int(row.get("input_length") or len(text.split()))
    )
    blocks = tuple(int(block) for block in row.get("hash_ids") or ())
    at_s = float(row["timestamp"]) / 1e3
    return TraceRow(_finite(at_s), _tokens(prompt_tokens), _tokens(row["output_length"]), blocks, text)


def _finite(at_s: float) -> float:
    if not math.isfinite(at_s):
        raise ValueError(f"{at_s} is no time")
    return at_s


def _tokens(value: Any) -> int:
    """A recorded length; 0 counts as 1, for a request of nothing cannot be sent."""
    tokens = int(value)
    if not 0 <= tokens <= MAX_TOKENS:
        raise ValueError(f"{tokens} tokens are not within 0 to {MAX_TOKENS}")
    return max(1, tokens)


def _azure(lines: list[str]) -> list[TraceRow]:
    reader = csv.DictReader(lines)
    try:
        columns = {name.strip().lower(): name for name in reader.fieldnames or ()}
        table = list(reader)
    except csv.Error as e:
        raise _BadRow(reader.line_num, f"no CSV: {e}") from e
    wanted = ("timestamp", "contexttokens", "generatedtokens")
    if missing := [name for name in wanted if name not in columns]:
        raise _BadRow(1, f"no column {', '.join(missing)}")
    at, prompt, output = (columns[name] for name in wanted)
    rows = []
    for number, row in enumerate(table, 2):
        try:
            rows.append(TraceRow(_wall_time_s(row[at]), _tokens(row[prompt]), _tokens(row[output])))
        except (ValueError, TypeError, AttributeError, OverflowError) as e:
            raise _BadRow(number, str(e)) from e
    return rows


def _wall_time_s(text: str) -> float:
    """``2023-11-16 18:15:46.6805900`` or ``2024-05-10 00:00:00.009930+00:00``: seven digits are too many for
    ``fromisoformat``, so the fraction is read apart."""
    moment, _, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :].replace("Z", "+00:00")
    whole = datetime.fromisoformat(moment + (zone or ("" if "+" in moment else "+00:00")))
    return whole.timestamp() + (float(f"0.{digits}") if digits else 0.0)
