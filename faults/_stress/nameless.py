"""A file without a name: its space is free again the moment its holder ends, however that happens."""

from __future__ import annotations

import contextlib
import os
import tempfile


def nameless_file(folder: str, flags: int = 0) -> int:
    """A descriptor, open for reading and writing."""
    with contextlib.suppress(OSError):  # a file system without O_TMPFILE, such as NFS
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | flags, 0o600)
    fd, path = tempfile.mkstemp(prefix=".chaosflow-", dir=folder)
    try:
        return os.open(path, os.O_RDWR | flags)
    finally:
        os.unlink(path)
        os.close(fd)
