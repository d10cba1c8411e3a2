"""The master's clock from a worker: its offset, how far that can be wrong, and which clocks are one."""

from __future__ import annotations

import random

from chaosflow.load.clocklink import ClockLink

MS = 1_000_000


def ping(link: ClockLink, sent_ns: int, there_ns: int, back_ns: int, offset_ns: int) -> None:
    """One ping that takes so long each way to a master whose clock is ahead by ``offset_ns``."""
    link.pong(sent_ns, sent_ns + there_ns + offset_ns, sent_ns + there_ns + back_ns)


def test_the_offset_is_right_within_its_error_whatever_the_ways_take() -> None:
    rng = random.Random(3)
    for offset_ns in (0, 7_000 * MS, -1_000_000 * MS):
        link = ClockLink()
        for number in range(40):
            ping(link, number * 500 * MS, rng.randint(1, 30) * MS, rng.randint(1, 30) * MS, offset_ns)
        assert abs(link.measured_ns - offset_ns) <= link.error_ns < 15 * MS
        assert link.known == 20


def test_clocks_that_may_be_the_same_are_taken_as_one() -> None:
    link = ClockLink()
    ping(link, 0, 1 * MS, 3 * MS, 0)
    assert link.measured_ns != 0
    assert link.offset_ns == 0
    assert link.to_worker(5) == link.to_master(5) == 5


def test_times_go_to_the_other_clock_and_back() -> None:
    link = ClockLink()
    assert (link.offset_ns, link.error_ns) == (0, 0)
    ping(link, 0, MS, MS, 5_000 * MS)
    assert link.to_master(10) == 5_000 * MS + 10
    assert link.to_worker(link.to_master(10)) == 10
    assert link.gauges() == {"clock_offset_s": 5.0, "clock_offset_error_s": 0.001}


def test_a_clock_that_drifts_is_followed() -> None:
    link = ClockLink()
    for number in range(100):
        ping(link, number * 500 * MS, MS, MS, 10_000 * MS + number * MS)
    assert abs(link.measured_ns - 10_099 * MS) <= 20 * MS
