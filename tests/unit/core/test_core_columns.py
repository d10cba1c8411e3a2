"""A day of seconds in columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaosflow.core.columns import Numbers, Table
from chaosflow.core.slots import Blocks, Cell, CellStore, Count


def table() -> Table[tuple[int, str, int], Cell]:
    return Table(Cell)


def test_rows_are_added_field_by_field_and_read_as_copies() -> None:
    made = table()
    made.add((7, "baseline", 0), Cell(3, 1, 1, 1, 1))
    made.add((7, "baseline", 0), Cell(2, 0, 1, 0, 1))
    assert made[7, "baseline", 0] == Cell(5, 1, 2, 1, 2)
    made[7, "baseline", 0].n = 99
    assert made[7, "baseline", 0].n == 5


def test_a_second_that_was_never_seen_is_no_member() -> None:
    made = table()
    made.add((3, "a", 0), Cell(1))
    made.add((9, "a", 0), Cell(1))
    assert list(made) == [(3, "a", 0), (9, "a", 0)]
    assert (5, "a", 0) not in made
    assert (3, "b", 0) not in made
    assert len(made) == 2
    with pytest.raises(KeyError):
        made[5, "a", 0]


def test_a_deleted_row_is_gone_and_counts_nothing() -> None:
    made = table()
    made.add((3, "a", 0), Cell(4, 4))
    del made[3, "a", 0]
    assert len(made) == 0
    assert made.total("a", 0) == Cell()


@given(st.lists(st.tuples(st.integers(-300, 300), st.integers(0, 9)), max_size=80))
def test_seconds_may_come_in_any_order(pairs: list[tuple[int, int]]) -> None:
    made, plain = table(), dict[Any, int]()
    for second, n in pairs:
        made.add((second, "a", 0), Cell(n))
        plain[second, "a", 0] = plain.get((second, "a", 0), 0) + n
    assert {key: cell.n for key, cell in made.items()} == plain
    assert made.total("a", 0).n == sum(plain.values())
    assert made.between(-10, 10, "a", 0).n == sum(n for (s, *_), n in plain.items() if -10 <= s < 10)
    series = made.series("n", -10, 10, "a", 0)
    assert [int(n) for n in series] == [plain.get((s, "a", 0), 0) for s in range(-10, 10)]


def test_numbers_keep_seven_digits() -> None:
    made = Numbers[tuple[int, str]]()
    made[5, "ttft"] = 0.123456789
    assert made[5, "ttft"] == pytest.approx(0.123456789, rel=1e-6)
    assert made.get((6, "ttft")) is None


def test_blocks_are_the_seconds_of_one_objective_in_order() -> None:
    store = CellStore()
    for second in (9, 4, 6):
        store.cells.add((second, "a", 1), Cell(second, 1, 2, 3, 4))
    blocks = store.blocks("a", 1)
    assert [s for s, _ in blocks] == [4, 6, 9]
    assert blocks.total() == Cell(19, 3, 6, 9, 12)
    assert len(store.blocks("a", 2)) == 0
    assert Blocks.of([]).total() == Cell()


def test_the_last_second_is_that_of_any_count() -> None:
    store = CellStore()
    assert store.last_second() == -1
    store.counts.add((4, "*"), Count(fired=1))
    store.counts.add((9, "edge"), Count(fired=1))
    assert store.last_second() == 9
