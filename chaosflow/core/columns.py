"""Values by the second, kept in columns: a day of seconds is 86,400 rows of plain integers and no objects.

A key is (second, name …). All seconds of one name are one block of memory from the first second seen to
the last; a second in between that was never seen costs its row and is not a member.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping
from dataclasses import fields
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Row = TypeVar("Row")
Key = TypeVar("Key", bound=tuple[Any, ...])

_LEAST_ROWS = 64
_GROWTH = 1.25


class Column:
    """Rows of one width by second, growing at both ends."""

    __slots__ = ("_rows", "_seen", "first", "length")

    def __init__(self, width: int, dtype: Any) -> None:
        self._rows: npt.NDArray[Any] = np.zeros((0, width), dtype)
        self._seen: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.first = 0
        """The second of the first row."""
        self.length = 0

    def place(self, second: int) -> int:
        """The row of a second, made where there is none."""
        if not self.length:
            self.first = second
        if second < self.first:
            self._grow(self.first - second, 0)
            self.first = second
        place = second - self.first
        if place >= self.length:
            self._grow(0, place + 1 - self.length)
        self._seen[place] = True
        return place

    def _grow(self, before: int, after: int) -> None:
        needed = before + self.length + after
        if before or needed > len(self._seen):
            room = max(_LEAST_ROWS, needed, math.ceil(_GROWTH * self.length))
            rows = np.zeros((room, self._rows.shape[1]), self._rows.dtype)
            seen = np.zeros(room, np.bool_)
            rows[before : before + self.length] = self._rows[: self.length]
            seen[before : before + self.length] = self._seen[: self.length]
            self._rows, self._seen = rows, seen
        self.length = needed

    def has(self, second: int) -> bool:
        place = second - self.first
        return 0 <= place < self.length and bool(self._seen[place])

    def forget(self, second: int) -> None:
        place = second - self.first
        self._seen[place] = False
        self._rows[place] = 0

    @property
    def rows(self) -> npt.NDArray[Any]:
        """A view of all rows, those never seen (zero) included."""
        return self._rows[: self.length]

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        return self._seen[: self.length]

    def seconds(self) -> Ints:
        """The seconds that were seen, in order."""
        return np.flatnonzero(self.seen) + self.first


class _Columns(MutableMapping[Key, Row], Generic[Key, Row]):
    """(second, name …) -> row."""

    def __init__(self, width: int, dtype: Any) -> None:
        self._width, self._dtype = width, dtype
        self._columns: dict[tuple[Any, ...], Column] = {}

    def names(self) -> list[tuple[Any, ...]]:
        """What follows the second in the keys."""
        return list(self._columns)

    def column(self, *name: Any) -> Column | None:
        """All seconds of one name; None when there are none."""
        return self._columns.get(name)

    def _place(self, key: Key) -> tuple[Column, int]:
        column = self._columns.get(key[1:])
        if column is None:
            column = self._columns[key[1:]] = Column(self._width, self._dtype)
        return column, column.place(key[0])

    def _found(self, key: Key) -> npt.NDArray[Any]:
        column = self._columns.get(key[1:])
        if column is None or not column.has(key[0]):
            raise KeyError(key)
        row: npt.NDArray[Any] = column.rows[key[0] - column.first]
        return row

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, tuple):
            return False
        column = self._columns.get(key[1:])
        return column is not None and column.has(key[0])

    def __delitem__(self, key: Key) -> None:
        self._found(key)
        self._columns[key[1:]].forget(key[0])

    def __iter__(self) -> Iterator[Key]:
        for name, column in self._columns.items():
            for second in column.seconds().tolist():
                yield cast(Key, (second, *name))

    def __len__(self) -> int:
        return sum(int(column.seen.sum()) for column in self._columns.values())

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class Table(_Columns[Key, Row]):
    """Rows are a dataclass of whole numbers; what is read is a copy."""

    def __init__(self, row: type[Row]) -> None:
        self._fields = tuple(f.name for f in fields(cast(Any, row)))
        super().__init__(len(self._fields), np.int32)
        self._row = row

    def add(self, key: Key, row: Row) -> None:
        """Add to the row of that key, field by field; a row that was not there is zero."""
        column, place = self._place(key)
        column.rows[place] += self._values(row)

    def _values(self, row: Row) -> tuple[int, ...]:
        return tuple(getattr(row, name) for name in self._fields)

    def __getitem__(self, key: Key) -> Row:
        return self._row(*self._found(key).tolist())

    def __setitem__(self, key: Key, row: Row) -> None:
        column, place = self._place(key)
        column.rows[place] = self._values(row)

    def total(self, *name: Any) -> Row:
        """The sum over all seconds of one name."""
        column = self.column(*name)
        if column is None:
            return self._row()
        return self._row(*column.rows.sum(axis=0, dtype=np.int64).tolist())

    def between(self, begin: int, end: int, *name: Any) -> Row:
        """The sum over the seconds begin <= s < end of one name."""
        column = self.column(*name)
        if column is None:
            return self._row()
        low, high = max(0, begin - column.first), max(0, end - column.first)
        return self._row(*column.rows[low:high].sum(axis=0, dtype=np.int64).tolist())

    def series(self, field: str, begin: int, end: int, *name: Any) -> Ints:
        """One field of the seconds begin <= s < end of one name; 0 where nothing was seen."""
        found = np.zeros(max(0, end - begin), np.int64)
        column = self.column(*name)
        if column is None:
            return found
        low, high = max(begin, column.first), min(end, column.first + column.length)
        if low < high:
            place = self._fields.index(field)
            found[low - begin : high - begin] = column.rows[low - column.first : high - column.first, place]
        return found


class Numbers(_Columns[Key, float]):
    """One number per key, to seven digits."""

    def __init__(self) -> None:
        super().__init__(1, np.float32)

    def __getitem__(self, key: Key) -> float:
        return float(self._found(key)[0])

    def __setitem__(self, key: Key, value: float) -> None:
        column, place = self._place(key)
        column.rows[place, 0] = value

    def series(self, begin: int, end: int, *name: Any) -> npt.NDArray[np.float64]:
        """The seconds begin <= s < end of one name; nan where nothing was seen."""
        found = np.full(max(0, end - begin), np.nan)
        column = self.column(*name)
        if column is None:
            return found
        low, high = max(begin, column.first), min(end, column.first + column.length)
        if low < high:
            chosen = slice(low - column.first, high - column.first)
            found[low - begin : high - begin] = np.where(column.seen[chosen], column.rows[chosen, 0], np.nan)
        return found
