"""Lines of a gzip file that may end anywhere: its writer was killed, or its disk was full."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path


def gzip_lines(path: Path) -> Iterator[bytes]:
    """Whole lines, without their ends, up to the first damage. Raises OSError where it cannot be opened."""
    inflate, tail = zlib.decompressobj(31), b""
    with path.open("rb") as file:
        while chunk := file.read(1 << 16):
            try:
                text = inflate.decompress(chunk)
            except zlib.error:
                return
            *lines, tail = (tail + text).split(b"\n")
            yield from lines
