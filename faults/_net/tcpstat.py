"""What the kernel counts of TCP in one network namespace."""

from __future__ import annotations

from pathlib import Path

from chaosflow.linux.netns import call_inside


def retransmitted(netns_fd: int | None) -> int:
    """Segments sent again since the namespace was made (RetransSegs of RFC 4022); 0 where it is gone."""
    if netns_fd is None:
        return 0
    text = call_inside(netns_fd, lambda: Path("/proc/thread-self/net/snmp").read_text())
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["RetransSegs"])
