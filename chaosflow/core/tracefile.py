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
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from chaosflow.core.errors import UsageError

BLOCK_TOKENS = 512


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


def read_text(path: str) -> str:
    """A text file, unpacked where its name ends in ``.gz``. Raises UsageError."""
    try:
        data = Path(path).read_bytes()
        return (gzip.decompress(data) if path.endswith(".gz") else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise UsageError(path, reason, f"paths count from {Path.cwd()}") from e


def parse_trace(text: str, name: str) -> tuple[TraceRow, ...]:
    """The rows of a trace's text; the format is told by its first character. Raises UsageError."""
    lines = text.lstrip("\ufeff").splitlines()
    parse = _mooncake if text.lstrip("\ufeff \r\n").startswith("{") else _azure
    try:
        rows = sorted(parse(lines), key=lambda row: row.at_s)
    except _BadRow as e:
        raise UsageError(name, str(e), "use Mooncake's JSON lines or the CSV of an Azure LLM trace") from e
    if not rows:
        raise UsageError(name, "holds no request", "use another trace")
    first_s = rows[0].at_s
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
        except (ValueError, TypeError, AttributeError) as e:
            raise _BadRow(number, str(e)) from e
    return rows


def _mooncake_row(row: dict[str, Any]) -> TraceRow:
    text = str(row.get("text_input") or "")
    prompt_tokens = (
        int(row["input_length"]) if not text else int(row.get("input_length") or len(text.split()))
    )
    blocks = tuple(int(block) for block in row.get("hash_ids") or ())
    at_s = float(row["timestamp"]) / 1e3
    return TraceRow(at_s, max(1, prompt_tokens), max(1, int(row["output_length"])), blocks, text)


def _azure(lines: list[str]) -> list[TraceRow]:
    reader = csv.DictReader(lines)
    columns = {name.strip().lower(): name for name in reader.fieldnames or ()}
    wanted = ("timestamp", "contexttokens", "generatedtokens")
    if missing := [name for name in wanted if name not in columns]:
        raise _BadRow(1, f"no column {', '.join(missing)}")
    at, prompt, output = (columns[name] for name in wanted)
    rows = []
    for number, row in enumerate(reader, 2):
        try:
            lengths = max(1, int(row[prompt])), max(1, int(row[output]))
            rows.append(TraceRow(_wall_time_s(row[at]), *lengths))
        except (ValueError, TypeError) as e:
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
