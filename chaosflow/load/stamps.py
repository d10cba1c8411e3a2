"""Kernel receive stamps (CLOCK_REALTIME) as monotonic ns.

SO_TIMESTAMPNS (socket(7), Documentation/networking/timestamping.rst) gives the stamp of the newest
segment that a read took. The offset between the clocks is sampled at each round of reads, for an operator or
NTP may step the wall clock in mid-run.
"""

from __future__ import annotations

import socket
import struct
import time

from chaosflow.core.clock import realtime_offset_ns

SO_TIMESTAMPNS = 35
TCP_INFO_BYTES = 160
_TIMESPEC = struct.Struct("@qq")
_RECEIVED = struct.Struct("@Q16xI")  # struct tcp_info: bytes_received at 128, data_segs_in at 152
_NOISE_NS = 20_000
_JUMP_NS = 1_000_000
_OLDEST_NS = 60_000_000_000

AncillaryData = list[tuple[int, int, bytes]]


class StampClock:
    """One per process. Counts clock jumps and stamps that were missing."""

    def __init__(self) -> None:
        self.offset_ns = realtime_offset_ns()
        self.jumps = 0
        self.user_stamps = 0
        # the kernel begins to stamp a moment after the first socket asks for it: ask early, and keep asking
        self._asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._asker.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def close(self) -> None:
        self._asker.close()

    def sample(self) -> int:
        """Compare the clocks now, and return monotonic ns. Sees a step of more than 1 ms as a jump."""
        now_ns = time.monotonic_ns()
        offset_ns = time.time_ns() - now_ns
        if abs(offset_ns - self.offset_ns) > _NOISE_NS:
            offset_ns = realtime_offset_ns()  # a preemption between the two calls looks like a step
            if abs(offset_ns - self.offset_ns) > _JUMP_NS:
                self.jumps += 1
        self.offset_ns = offset_ns
        return now_ns

    def stamp(self, ancillary: AncillaryData) -> tuple[int, bool]:
        """(monotonic ns of the newest segment read, whether the kernel said so).

        Falls back to now where the stamp is missing, or means nothing because the clock just jumped.
        """
        jumps = self.jumps
        now_ns = self.sample()
        return self.stamp_since(ancillary if jumps == self.jumps else [], now_ns)

    def stamp_since(self, ancillary: AncillaryData, sampled_ns: int) -> tuple[int, bool]:
        """The same, for a read shortly after ``sample`` returned ``sampled_ns`` (and saw no jump)."""
        if ancillary:
            seconds, nanoseconds = _TIMESPEC.unpack_from(ancillary[0][2])
            at_ns: int = seconds * 1_000_000_000 + nanoseconds - self.offset_ns
            if at_ns <= sampled_ns:
                if sampled_ns - _OLDEST_NS < at_ns:
                    return at_ns, True
            elif at_ns <= (now_ns := time.monotonic_ns()) + _NOISE_NS:
                return min(at_ns, now_ns), True
        self.user_stamps += 1
        return time.monotonic_ns(), False


def received(tcp_info: bytes) -> tuple[int, int]:
    """(payload bytes, data segments) that the kernel has received on a connection; (-1, -1) if unknown."""
    if len(tcp_info) < TCP_INFO_BYTES:
        return -1, -1
    bytes_received, segments = _RECEIVED.unpack_from(tcp_info, 128)
    return bytes_received, segments
