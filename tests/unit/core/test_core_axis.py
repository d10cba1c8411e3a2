"""Axes of a sweep: lists and ranges, from the mildest value to the harshest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaosflow.core.axis import MAX_VALUES, Axis, parse_axis, split_top
from chaosflow.core.errors import UsageError


def values(text: str, resolution: str = "", *, divide: bool = False) -> list[str]:
    axis = parse_axis(f"a.b={text}", resolution, divide=divide)
    assert axis is not None
    return list(axis.values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10,20,40,80", ["10", "20", "40", "80"]),
        ("1980, 1200 ,300", ["1980", "1200", "300"]),
        ("10..40:10", ["10", "20", "30", "40"]),
        ("10..35:10", ["10", "20", "30", "35"]),
        ("40..10:15", ["40", "25", "10"]),
        ("0.1..0.3:0.1", ["0.1", "0.2", "0.3"]),
        ("10..80*2", ["10", "20", "40", "80"]),
        ("80..10*2", ["80", "40", "20", "10"]),
        ("100ms..300ms:100ms", ["100ms", "200ms", "300ms"]),
        ("100..300ms:100", ["100ms", "200ms", "300ms"]),
        ("0%..10%:5%", ["0%", "5%", "10%"]),
        ("-10..10:10", ["-10", "0", "10"]),
    ],
)
def test_lists_and_ranges(text: str, expected: list[str]) -> None:
    assert values(text) == expected


def test_numbers_carry_their_unit_and_mixed_durations_become_seconds() -> None:
    assert parse_axis("x=10ms,20ms") == Axis("x", ("10ms", "20ms"), (10.0, 20.0), "ms")
    assert parse_axis("x=500ms,2s") == Axis("x", ("500ms", "2s"), (0.5, 2.0), "s")


def test_words_are_an_axis_without_numbers() -> None:
    assert parse_axis("x=uniform,normal") == Axis("x", ("uniform", "normal"), None, "")


@pytest.mark.parametrize(
    "text", ["x=3", "x=[1, 2]", "x={a: 1, b: 2}", "x='a,b'", 'x="1,2"', "x=", "x", "x=1..b"]
)
def test_a_single_value_is_an_ordinary_override(text: str) -> None:
    assert parse_axis(text) is None


def test_commas_in_brackets_and_quotes_do_not_split() -> None:
    assert split_top("[1, 2],{a: 1, b: 2},'x,y', 5") == ["[1, 2]", "{a: 1, b: 2}", "'x,y'", "5"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1,,2", "empty value"),
        ("1,2,1", "twice"),
        ("10,40,20", "up and down"),
        ("10..80", "no step"),
        ("10..10:1", "begins where it ends"),
        ("10ms..1s:5", "mixes the units"),
        ("1..100000:1", f"more than {MAX_VALUES}"),
        ("1..8:0", "leads nowhere"),
        ("0..8*2", "multiplied out"),
        ("1..8*1", "multiplied out"),
    ],
)
def test_what_is_no_axis_is_refused_with_its_cause(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        parse_axis(f"x={text}")


def test_bisecting_divides_a_range_and_keeps_whole_numbers_whole() -> None:
    divided = values("10..200", divide=True)
    assert (divided[0], divided[-1]) == ("10", "200")
    assert all(v.isdecimal() for v in divided)
    assert 14 <= len(divided) <= 18
    assert values("0.0..0.5", divide=True)[1] == "0.03125"
    assert values("1980..300", "420", divide=True) == ["1980", "1560", "1140", "720", "300"]
    assert values("10ms..40ms", "10ms", divide=True) == ["10ms", "20ms", "30ms", "40ms"]
    with pytest.raises(UsageError, match="does not fit"):
        parse_axis("x=10ms..40ms", "1s", divide=True)


@given(st.integers(-500, 500), st.integers(-500, 500), st.integers(1, 50))
def test_a_range_holds_both_ends_and_never_turns(low: int, high: int, step: int) -> None:
    if low == high:
        return
    axis = parse_axis(f"x={low}..{high}:{step}")
    assert axis is not None
    assert axis.numbers is not None
    assert (axis.numbers[0], axis.numbers[-1]) == (low, high)
    steps = [b - a for a, b in zip(axis.numbers, axis.numbers[1:], strict=False)]
    assert all(0 < abs(s) <= step and (s > 0) == (high > low) for s in steps)


def test_short_names_tell_what_is_varied() -> None:
    assert Axis("faults.jitter.params.delay_ms", ("1",)).short == "jitter.delay_ms"
    assert Axis("load.arrival.rate_per_s", ("1",)).short == "arrival.rate_per_s"
