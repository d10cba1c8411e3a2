"""Use up memory bandwidth: ``stream_memory ARRAY_BYTES``. The copy kernel of STREAM, round and round three arrays.

McCalpin, "Memory bandwidth and machine balance in current high performance computers" (1995). The bytes
counted are those that STREAM counts: read and written. By memmove(3) and without numpy, whose import took a
helper on a busy machine seconds of the fault's time.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
from itertools import cycle

from chaosflow.faults._stress.report import be_the_first_to_go, report

_REPORT_S = 0.1
_CHUNK_BYTES = 4 << 20
"""Copied at a time: a report comes soon also where the machine is busy."""


def main(array_bytes: int) -> None:
    be_the_first_to_go()
    # no huge pages: making them took ten times as long as all small ones together
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    arrays = [mmap.mmap(-1, array_bytes, flags=private) for _ in range(3)]
    places = [ctypes.addressof(ctypes.c_char.from_buffer(a)) for a in arrays]
    # what was never written is all one page of zeros, and no memory would be read
    ctypes.memset(places[0], 1, array_bytes)
    began, moved, told = time.monotonic(), 0, 0.0
    for i in cycle(range(3)):
        source, target = places[i], places[(i + 1) % 3]
        for offset in range(0, array_bytes, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, array_bytes - offset)
            ctypes.memmove(target + offset, source + offset, size)
            moved += 2 * size
            if (now := time.monotonic()) - told > _REPORT_S:
                told = now
                report(moved_bytes=moved, seconds=max(1e-6, now - began), at_s=now)


if __name__ == "__main__":
    main(int(sys.argv[1]))
