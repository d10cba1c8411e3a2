"""Hold memory resident: ``hold_memory BYTES``. Keeps the machine's floor whatever others do."""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path

from chaosflow.faults._stress.report import be_the_first_to_go, report
from chaosflow.linux import room

_CHUNK = 16 << 20
_LOOK_S = 0.1
_TOUCH_EVERY = 10


def main(wanted: int) -> None:
    """Fill, then touch every page once a second; give chunks back while less than the floor is free."""
    be_the_first_to_go()
    chunks: list[mmap.mmap] = []
    # not compressible, and no two pages of a chunk alike: zram does not make it small
    noise = os.urandom(_CHUNK)
    own = anonymous_bytes(os.getpid())
    looks = 0
    while True:
        held = sum(map(len, chunks))
        spare = room.memory().spare
        if held < wanted and spare > (size := min(_CHUNK, wanted - held)):
            chunks.append(_filled(size, noise))
            continue
        if spare == 0 and chunks:
            chunks.pop().close()  # others need it: the floor is theirs
        report(held_bytes=sum(map(len, chunks)), wanted_bytes=wanted, own_bytes=own)
        time.sleep(_LOOK_S)
        looks += 1
        if looks % _TOUCH_EVERY == 0:
            for chunk in chunks:
                chunk[:: mmap.PAGESIZE]  # reading one byte of a page keeps it from being swapped out


def anonymous_bytes(pid: int) -> int:
    """Resident anonymous memory (VmRSS would count the interpreter's files, too); 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def _filled(size: int, noise: bytes) -> mmap.mmap:
    chunk = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    chunk[:] = noise[:size]
    return chunk


if __name__ == "__main__":
    main(int(sys.argv[1]))
