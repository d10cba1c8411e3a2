"""A supervisor as small as can be: starts COMMAND again whenever it has ended, until SIGINT or SIGTERM.

python tests/targets/supervise.py DELAY_S COMMAND …
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def main(delay_s: float, command: list[str]) -> None:
    """At its own end its child gets SIGTERM, and is waited for. Gives up never."""
    child: subprocess.Popen[bytes] | None = None

    def stop(*_: object) -> None:
        sys.exit(0)  # not child.wait() here: the wait that this interrupts holds its lock

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        while True:
            child = subprocess.Popen(command)
            child.wait()
            time.sleep(delay_s)
    finally:
        if child is not None:
            child.terminate()
            child.wait()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
