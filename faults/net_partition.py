"""``net.partition``: every packet between the target and the rest disappears; connections hang, none is closed."""

from __future__ import annotations

from typing import ClassVar

from chaosflow.faults._net.drop import DropFault
from chaosflow.linux.cbpf import Match


class NetPartition(DropFault):
    """A cut cable: no reset, no ICMP, only silence. ``side`` makes it one-way."""

    kind: ClassVar[str] = "net.partition"
    cannot: ClassVar[str] = (
        "Closes nothing: after the revert a connection goes on once TCP sends again, which may take as long as the cut "
        "did. Other clients of that port on that interface are cut off too"
    )

    def narrow(self, match: Match) -> Match:
        return match
