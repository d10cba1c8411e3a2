"""A range with absurd numbers is refused in words; it neither ends in an arithmetic error nor takes all memory."""

from __future__ import annotations

import pytest

from chaosflow.core.axis import parse_axis
from chaosflow.core.errors import UsageError


@pytest.mark.parametrize(
    "values",
    [
        "99999999999999999999999999..99999999999999999999999999999999:3",
        "1..2:0.00000000000000000000000000001",
        "123456789012345678901234567890..1*2",
        "1..999999999999999:1",
    ],
)
@pytest.mark.parametrize("divide", [False, True])
def test_range_of_absurd_numbers_is_refused(values: str, divide: bool) -> None:
    with pytest.raises(UsageError, match=r"--set load\.x="):
        parse_axis(f"load.x={values}", divide=divide)


def test_widest_numbers_that_are_taken_still_divide() -> None:
    axis = parse_axis("load.x=-99999999999999..999999999999999", divide=True)
    assert axis is not None
    assert len(axis.values) == 17
    assert axis.values[-1] == "999999999999999"
