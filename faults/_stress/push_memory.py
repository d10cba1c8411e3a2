"""Push a memory cgroup over its limit from within: ``push_memory FOLDER MOST_BYTES`` (cgroup v1).

A v1 limit below what is used is refused, and one just above kills nobody who asks for nothing. This helper
asks, and leaves as soon as the kernel has killed somebody: the largest, which a helper of 10 MiB is not.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from pathlib import Path

from chaosflow.faults._stress.report import report
from chaosflow.linux import limits

_CHUNK = 1 << 20


def main(folder: Path, most_bytes: int) -> None:
    with contextlib.suppress(PermissionError):  # without CAP_SYS_RESOURCE its size must protect it
        Path("/proc/self/oom_score_adj").write_text("-1000")
    before = limits.oom_kills(folder)
    held: list[mmap.mmap] = []
    noise = os.urandom(_CHUNK)
    report(state="pushing")
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    while limits.oom_kills(folder) == before and len(held) * _CHUNK < most_bytes:
        chunk = mmap.mmap(-1, _CHUNK)
        chunk[:] = noise
        held.append(chunk)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
