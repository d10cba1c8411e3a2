"""One chaos test at a time on this machine, whatever the number of pytest processes.

Two measurements at once measure each other, and a fault of one test must not act on another's target.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def machine_lock() -> Iterator[None]:
    """Wait for this user's lock, and hold it. It ends with its process, however that ends."""
    from chaosflow.core.journal import require_own, state_dir

    folder = state_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_own(folder)
    fd = os.open(folder / "pytest.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
