"""How a helper program says what it does: one JSON object in the memfd that is its standard output."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

_BYTES = 1024
"""Always overwritten as a whole: a reader never sees the tail of an older report."""


def report(**values: float | str) -> None:
    """Replace the report."""
    os.pwrite(1, json.dumps(values).encode().ljust(_BYTES), 0)


def be_the_first_to_go() -> None:
    """Where memory runs out the kernel shall end this helper, and neither the target nor a bystander."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
