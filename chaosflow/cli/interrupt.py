"""Ctrl-C outside of a run, where nothing is to be undone."""

from __future__ import annotations

import signal
import sys

from chaosflow.core.errors import ExitCode


def leave_at_once() -> None:
    """From now on Ctrl-C ends the process without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(int(ExitCode.INTERRUPTED)))
