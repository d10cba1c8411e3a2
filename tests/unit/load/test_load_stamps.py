"""Kernel stamps on the monotonic clock, and a wall clock that jumps."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from chaosflow.load.stamps import SO_TIMESTAMPNS, TCP_INFO_BYTES, StampClock, received

MS = 1_000_000


@pytest.fixture
def clock() -> Iterator[StampClock]:
    made = StampClock()
    yield made
    made.close()


def ancillary(realtime_ns: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@qq", *divmod(realtime_ns, 10**9)))]


def test_a_kernel_stamp_is_put_on_the_monotonic_clock(clock: StampClock) -> None:
    before_ns = time.monotonic_ns()
    stamp = ancillary(time.time_ns() - 50 * MS)
    after_ns = time.monotonic_ns()
    at_ns, by_kernel = clock.stamp(stamp)
    assert by_kernel
    assert before_ns - MS < at_ns + 50 * MS < after_ns + MS


def test_a_stamp_never_lies_in_the_future(clock: StampClock) -> None:
    at_ns, _ = clock.stamp(ancillary(time.time_ns() + 500 * MS))
    assert at_ns <= time.monotonic_ns()


def test_a_missing_stamp_falls_back_to_user_time_and_is_counted(clock: StampClock) -> None:
    before_ns = time.monotonic_ns()
    at_ns, by_kernel = clock.stamp([])
    assert not by_kernel
    assert before_ns <= at_ns <= time.monotonic_ns()
    assert clock.user_stamps == 1


def test_a_step_of_the_wall_clock_is_seen_and_the_stamp_not_believed(clock: StampClock) -> None:
    clock.offset_ns -= 5_000 * MS  # as if it had been set forward since the last read
    before_ns = time.monotonic_ns()
    at_ns, by_kernel = clock.stamp(ancillary(time.time_ns()))
    assert (clock.jumps, by_kernel) == (1, False)
    assert at_ns >= before_ns
    _, by_kernel = clock.stamp(ancillary(time.time_ns()))
    assert (clock.jumps, by_kernel) == (1, True)


def test_the_kernel_counts_segments_and_bytes() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (10, 20):
            far.sendall(b"x" * size)
            assert len(near.recv(100)) == size
        info = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    assert received(info) == (30, 2)
    assert received(b"") == (-1, -1)
