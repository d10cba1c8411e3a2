"""The samples of a run, by segment and second: what two runs are compared by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from chaosflow.core.errors import UsageError
from chaosflow.core.gziplines import gzip_lines
from chaosflow.core.slots import CELLS_FILE, CellBatch

FAILED = 1 << 30
"""The bucket of a failed request: above every time that was measured (fast errors are no good times)."""

Blocks = dict[int, dict[int, int]]
"""Second -> bucket -> samples."""


@dataclass(slots=True)
class SegmentSamples:
    """One segment's samples in blocks of about a second, by the time they were resolved."""

    times: dict[str, Blocks] = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))
    """``ttft``, ``gap``, ``e2e``."""
    resolved: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    failed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    tokens: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By second of the load; the others by second of the batch."""


def load_samples(folder: Path) -> dict[str, SegmentSamples]:
    """Segment -> samples, from a run's cells; as far as they go where the run was killed. Raises UsageError."""
    path = folder / CELLS_FILE
    if not path.is_file():
        raise UsageError(
            str(folder), f"holds no {CELLS_FILE}", "name the folder of a run; were its raw data deleted?"
        )
    found: dict[str, SegmentSamples] = defaultdict(SegmentSamples)
    for batch in _batches(path):
        _take(batch, found)
    if not found:
        raise UsageError(str(path), "holds no cells that can be read", "run the scenario again")
    return dict(found)


def _batches(path: Path) -> Iterator[CellBatch]:
    try:
        for line in gzip_lines(path):
            yield CellBatch.from_wire(orjson.loads(line))
    except orjson.JSONDecodeError:
        return  # damaged from here on
    except (OSError, KeyError, TypeError, ValueError) as e:
        raise UsageError(str(path), f"cannot be read ({e})", "run the scenario again") from e


def _take(batch: CellBatch, found: dict[str, SegmentSamples]) -> None:
    second = batch.watermark_ns // 1_000_000_000
    for (segment, metric), histogram in batch.by_segment.items():
        _add(found[segment].times[metric][second], histogram.counts)
    for (at, segment), count in batch.counts.items():
        if segment == "*":
            continue
        here = found[segment]
        here.resolved[second] += count.resolved
        here.failed[second] += count.failed
        here.tokens[at] += count.tokens
        if count.failed:
            for metric in ("ttft", "e2e"):
                _add(here.times[metric][second], {FAILED: count.failed})


def _add(into: dict[int, int], counts: dict[int, int]) -> None:
    for bucket, times in counts.items():
        into[bucket] = into.get(bucket, 0) + times


def matrix(blocks: Blocks, buckets: list[int]) -> NDArray[np.int64]:
    """Counts of shape (blocks in order of time, buckets)."""
    place = {bucket: i for i, bucket in enumerate(buckets)}
    found = np.zeros((len(blocks), len(buckets)), dtype=np.int64)
    for row, second in enumerate(sorted(blocks)):
        for bucket, times in blocks[second].items():
            found[row, place[bucket]] += times
    return found
