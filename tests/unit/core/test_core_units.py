"""Numbers as people read them."""

from __future__ import annotations

import pytest

from chaosflow.core.units import format_duration, significant
from chaosflow.sla.words import percent, signed_percent


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (24.06, "24.1"), (999.6, "1,000"), (1234.5, "1,234"), (1.28e6, "1,280,000"), (0.00001, "0.00001")],
)  # fmt: skip
def test_a_number_never_shows_a_power_of_ten(value: float, text: str) -> None:
    assert significant(value) == text
    assert significant(-value) == (f"-{text}" if value else "0") or value == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9996e-3, "1 ms"), (0.9996, "1 s"), (0.9994, "999 ms"), (59.96, "1 min"), (59.94, "59.9 s"), (3599.7, "1 h 0 min")],
)  # fmt: skip
def test_a_duration_that_rounds_up_takes_the_next_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_shares_are_never_rounded_to_all_and_changes_may_be_large() -> None:
    assert percent(0.9999999) == "99.99999 %"
    assert percent(0.0000001) == "0.00001 %"
    assert percent(1.0) == "100 %"
    assert signed_percent(12.345) == "+1,234 %"
    assert signed_percent(-0.05) == "-5 %"
    assert signed_percent(float("inf")) == "+inf %"
