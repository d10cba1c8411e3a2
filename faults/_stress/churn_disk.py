"""Keep a disk busy: ``churn_disk FOLDER FILE_BYTES BLOCK_BYTES MODE BYTES_PER_S``.

Past the page cache (O_DIRECT) where the file system can, else with fdatasync and dropped pages. A rate of
0 = as fast as it goes.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import time

from chaosflow.faults._stress.nameless import nameless_file
from chaosflow.faults._stress.report import report

_REPORT_S = 0.1


def main(folder: str, file_bytes: int, block_bytes: int, mode: str, bytes_per_s: int) -> None:
    fd, direct = _open(folder, block_bytes)
    block = mmap.mmap(-1, block_bytes)  # page-aligned, as O_DIRECT wants it
    block[:] = os.urandom(block_bytes)
    for offset in range(0, file_bytes, block_bytes):
        os.pwritev(fd, [block], offset)
    os.fdatasync(fd)
    dice, blocks = random.Random(), file_bytes // block_bytes
    began = time.monotonic()
    told, done = 0.0, {"read": 0, "write": 0}
    while True:
        kind = mode if mode != "both" else dice.choice(("read", "write"))
        offset = dice.randrange(blocks) * block_bytes
        if kind == "write":
            done["write"] += os.pwritev(fd, [block], offset)
            if not direct:
                os.fdatasync(fd)
        else:
            if not direct:
                os.posix_fadvise(fd, offset, block_bytes, os.POSIX_FADV_DONTNEED)
            done["read"] += os.preadv(fd, [block], offset)
        now = time.monotonic()
        if now - told > _REPORT_S:
            told = now
            report(seconds=now - began, at_s=now, direct=direct, **done)
        if bytes_per_s:
            time.sleep(max(0.0, began + (done["read"] + done["write"]) / bytes_per_s - now))


def _open(folder: str, block_bytes: int) -> tuple[int, bool]:
    """A descriptor, and whether it goes past the page cache."""
    fd = nameless_file(folder)
    try:
        direct = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_DIRECT)
        probe = mmap.mmap(-1, block_bytes)
        os.pwritev(direct, [probe], 0)
    except OSError:
        return fd, False
    os.close(fd)
    return direct, True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
