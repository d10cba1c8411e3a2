"""Hold disk space: ``hold_disk FOLDER BYTES FLOOR_BYTES``. Leaves the floor free whatever others do."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from chaosflow.faults._stress.nameless import nameless_file
from chaosflow.faults._stress.report import report
from chaosflow.linux import room

_CHUNK = 256 << 20
_LOOK_S = 0.05


def main(folder: str, wanted: int, floor: int) -> None:
    """Reserve in chunks, then give back while less than the floor is free."""
    fd = nameless_file(folder)
    held, full = 0, False
    while True:
        free = room.disk(Path(folder)).free
        size = min(_CHUNK, wanted - held, free - floor)
        if size > 0 and not full:
            full = not _reserve(fd, held, size)
            held = os.fstat(fd).st_size
            continue
        if free < floor and held:
            held = max(0, held - (floor - free))
            os.ftruncate(fd, held)
        report(fd=fd, held_bytes=held, wanted_bytes=wanted)
        time.sleep(_LOOK_S)


def _reserve(fd: int, offset: int, size: int) -> bool:
    """False when the last byte is taken: the kernel gives all of a chunk or none, so halve it."""
    while size >= 4096:
        try:
            os.posix_fallocate(fd, offset, size)
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            os.ftruncate(fd, offset)
            size //= 2
        else:
            return True
    return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
