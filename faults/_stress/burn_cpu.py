"""Keep one CPU busy: ``burn_cpu PERCENT``. Reports when it began, in monotonic ns and CPU ns."""

from __future__ import annotations

import sys
import time

from chaosflow.faults._stress.report import be_the_first_to_go, report

_PERIOD_NS = 20_000_000


def main(percent: float) -> None:
    """Burn that share of every 20 ms; a share that the scheduler withheld is not made up for."""
    be_the_first_to_go()
    began, burnt = time.monotonic_ns(), time.thread_time_ns()
    due = began
    while True:
        _burn(round(_PERIOD_NS * percent / 100), due + _PERIOD_NS)
        due = max(due + _PERIOD_NS, time.monotonic_ns() - _PERIOD_NS)
        if percent < 100:
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        report(began_ns=began, burnt_before_ns=burnt, percent=percent)


def _burn(cpu_ns: int, until_ns: int) -> None:
    """Until so much CPU time is used, or it is too late."""
    end = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < end and time.monotonic_ns() < until_ns:
        for _ in range(1_000):
            pass


if __name__ == "__main__":
    main(float(sys.argv[1]))
