"""``net.partition``: every packet between the target and the rest disappears; connections hang, none is closed."""

from __future__ import annotations

from typing import ClassVar

from chaosflow.faults._net.drop import DropFault
from chaosflow.linux.cbpf import Match


class NetPartition(DropFault):
    """A cut cable: no reset, no ICMP, only silence. ``side`` makes it one-way."""

    kind: ClassVar[str] = "net.partition"

    def narrow(self, match: Match) -> Match:
        return match
