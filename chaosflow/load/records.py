"""Raw records: one JSON line a request, gzip, all times in µs from the start of the load."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from chaosflow.core.gziplines import gzip_lines
from chaosflow.core.sample import RequestRecord

_MAX_BUFFERED_BYTES = 32 << 20


class RecordWriter:
    """``add`` compresses into memory and never blocks; ``drain`` writes and may (call it in a thread).

    A disk that is full or gone stops the records, not the load: ``problem`` says so once.
    """

    def __init__(self, path: Path, t0_ns: int) -> None:
        self._path, self._t0_ns = path, t0_ns
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
        self._ready: list[bytes] = []
        self._size = 0
        self._fd: int | None = None
        self.problem = ""

    def add(self, record: RequestRecord) -> None:
        """Take one resolved record; does nothing once there is a problem."""
        if self.problem:
            return
        self._push(self._deflate.compress(orjson.dumps(to_json(record, self._t0_ns)) + b"\n"))
        if self._size > _MAX_BUFFERED_BYTES:
            self._stop("the disk takes no more: records are dropped from here on")

    def drain(self, *, final: bool = False) -> None:
        """Write what is ready. Does not raise."""
        if self.problem:
            return
        if final:
            self._push(self._deflate.flush())
        ready, self._ready, self._size = self._ready, [], 0
        try:
            if self._fd is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o644)
            data = memoryview(b"".join(ready))
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as e:
            self._stop(f"{e.strerror}: records end here")
        if (final or self.problem) and self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _push(self, data: bytes) -> None:
        if data:
            self._ready.append(data)
            self._size += len(data)

    def _stop(self, why: str) -> None:
        self.problem = f"raw records {self._path}: {why}"
        self._ready.clear()
        self._size = 0


def to_json(record: RequestRecord, t0_ns: int) -> dict[str, Any]:
    """One record as it stands in the file; a time that never came is null.

    ``event_low_us`` is there only where some event's arrival is known only as an interval.
    """

    def us(at_ns: int | None) -> int | None:
        return None if at_ns is None else (at_ns - t0_ns) // 1000

    row: dict[str, Any] = {
        "j": record.index,
        "sched_us": us(record.sched_ns),
        "fire_us": us(record.fire_ns),
        "sent_us": us(record.sent_ns),
        "headers_us": us(record.headers_ns),
        "end_us": us(record.end_ns),
        "event_us": [(t - t0_ns) // 1000 for t in record.event_ns],
        "tokens": record.tokens,
        "tokens_by_usage": record.tokens_by_usage,
        "outcome": record.outcome.value,
        "status": record.status,
        "finish_reason": record.finish_reason,
        "saw_done": record.saw_done,
        "complete": record.complete,
        "error": record.error,
        "user_stamps": record.user_stamps,
        "clock_jump": record.clock_jump,
    }
    if record.event_low_ns != record.event_ns:
        row["event_low_us"] = [(t - t0_ns) // 1000 for t in record.event_low_ns]
    return row


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a records file, as far as it goes: one cut short by a crash ends early, without error."""
    yield from map(orjson.loads, gzip_lines(path))
