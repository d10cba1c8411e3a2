"""Use up memory bandwidth: ``stream_memory ARRAY_BYTES``. The four kernels of STREAM over three arrays.

McCalpin, "Memory bandwidth and machine balance in current high performance computers" (1995). The bytes
counted are those that STREAM counts; numpy makes triad of two passes, counted as such.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chaosflow.faults._stress.report import be_the_first_to_go, report

_REPORT_S = 0.1


def main(array_bytes: int) -> None:
    be_the_first_to_go()
    a, b, c = (np.full(array_bytes // 8, value) for value in (1.0, 2.0, 0.0))
    began, moved, told = time.monotonic(), 0, 0.0
    while True:
        np.copyto(c, a)  # copy: 2 arrays
        np.multiply(c, 3.0, out=b)  # scale: 2
        np.add(a, b, out=c)  # add: 3
        np.multiply(c, 3.0, out=a)  # triad: 2 + 3
        np.add(a, b, out=a)
        a.fill(1.0)  # and 1, so that nothing overflows
        moved += 13 * array_bytes
        if (now := time.monotonic()) - told > _REPORT_S:
            told = now
            report(moved_bytes=moved, seconds=now - began, at_s=now)


if __name__ == "__main__":
    main(int(sys.argv[1]))
