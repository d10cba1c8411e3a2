"""An axis of a sweep: ``--set PATH=10,20,40`` or ``PATH=10..80:10``, from the mildest value to the harshest. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from chaosflow.core.errors import UsageError
from chaosflow.core.units import parse_duration_s

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_RANGE = re.compile(
    rf"(?P<low>{_NUMBER})(?P<u1>[a-zA-Zµ%]*)\.\.(?P<high>{_NUMBER})(?P<u2>[a-zA-Zµ%]*)"
    rf"(?:(?P<how>[:*])(?P<step>{_NUMBER})(?P<u3>[a-zA-Zµ%]*))?"
)
_VALUE = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[a-zA-Zµ%]*)")
_OPEN, _CLOSE = "[{(", "]})"
MAX_VALUES = 1000
MAX_DIGITS = 15
"""Of a number in a range, with sign and point: so that its steps stay exact."""
BISECT_PARTS = 16
"""Into so many a range is divided for bisecting, where no resolution is given."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One value of the scenario that is varied. ``values`` as they are written, mild to harsh."""

    path: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    """The same as numbers in ``unit``, strictly ascending or descending; None where they are words."""
    unit: str = ""

    @property
    def short(self) -> str:
        """The last two parts of the path that tell it apart: ``jitter.delay_ms``."""
        parts = [p for p in self.path.split(".") if p not in ("faults", "params", "load", "target")]
        return ".".join(parts[-2:]) if parts else self.path

    def override(self, value: str) -> str:
        return f"{self.path}={value}"


def parse_axis(text: str, resolution: str = "", *, divide: bool = False) -> Axis | None:
    """The axis that ``PATH=VALUES`` describes; None where it is a single value, an ordinary override.

    VALUES is a list (commas outside of brackets and quotes), ``LO..HI:STEP`` or ``LO..HI*FACTOR``; the
    end always belongs to it. ``resolution`` is the step of a range without one; with ``divide`` such a
    range is divided by itself. Raises UsageError.
    """
    path, equals, written = text.partition("=")
    if not equals:
        return None  # the check of overrides says what is wrong with it
    values = split_top(written)
    if len(values) > 1:
        return _list_axis(text, path.strip(), values)
    found = _RANGE.fullmatch(written.strip())
    if found is None:
        return None
    units = {u for u in (found["u1"], found["u2"]) if u}
    if found["how"] == ":":
        units |= {found["u3"]} - {""}
    if len(units) > 1:
        raise _wrong(text, f"mixes the units {' and '.join(sorted(units))}", "write all ends in one unit")
    unit = units.pop() if units else ""
    if any(len(found[part] or "") > MAX_DIGITS for part in ("low", "high", "step")):
        raise _wrong(text, f"has a number of more than {MAX_DIGITS} signs", "use a larger unit")
    low, high = Decimal(found["low"]), Decimal(found["high"])
    if low == high:
        raise _wrong(
            text, "begins where it ends", "write LO..HI:STEP, from the mildest value to the harshest"
        )
    numbers = _steps(text, low, high, found["how"], found["step"], resolution, unit, divide)
    words = tuple(f"{n.normalize():f}{unit}" for n in numbers)
    return Axis(path.strip(), words, tuple(float(n) for n in numbers), unit)


def split_top(text: str) -> list[str]:
    """Split at the commas that stand outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += sign
    return [part.strip() for part in parts]


def _list_axis(text: str, path: str, values: Sequence[str]) -> Axis:
    if "" in values:
        raise _wrong(text, "has an empty value between its commas", "leave the extra comma out")
    if len(set(values)) < len(values):
        raise _wrong(text, "names a value twice", "name each once; --retries repeats undecided runs")
    numbers, unit = _numbers(values)
    if numbers is not None and not _one_way(numbers):
        raise _wrong(text, "goes up and down", "list the values from the mildest to the harshest, up or down")
    return Axis(path, tuple(values), numbers, unit)


def _numbers(values: Sequence[str]) -> tuple[tuple[float, ...] | None, str]:
    """The values as numbers of one unit; durations of several units in s; (None, "") for words."""
    found = [_VALUE.fullmatch(value) for value in values]
    units = {m["unit"] for m in found if m}
    if all(found) and len(units) == 1:
        return tuple(float(m["number"]) for m in found if m), units.pop()
    try:
        return tuple(parse_duration_s(value) for value in values), "s"
    except ValueError:
        return None, ""


def _one_way(numbers: Iterable[float]) -> bool:
    steps = [b - a for a, b in pairwise(numbers)]
    return all(s > 0 for s in steps) or all(s < 0 for s in steps)


def _steps(
    text: str, low: Decimal, high: Decimal, how: str | None, step: str | None, resolution: str, unit: str, divide: bool
) -> list[Decimal]:  # fmt: skip
    by = Decimal(step) if step else _resolution(text, resolution, unit)
    if how == "*":
        if by is None or by <= 1 or low * high <= 0:
            raise _wrong(
                text, "cannot be multiplied out", "write LO..HI*FACTOR with a factor above 1 and no 0"
            )
        ratio = by if abs(high) > abs(low) else 1 / by
        return _until(text, low, high, lambda n: n * ratio)
    if by is None:
        if not divide:
            raise _wrong(text, "has no step", f"write {text}:STEP, or *FACTOR, or use --bisect")
        by = abs(high - low) / BISECT_PARTS
        if low == low.to_integral_value() and high == high.to_integral_value():
            by = max(Decimal(1), by.to_integral_value())  # whole ends: whole values
    if by <= 0:
        raise _wrong(
            text, "has a step that leads nowhere", "write a step above 0; the direction is LO to HI's"
        )
    move = by if high > low else -by
    return _until(text, low, high, lambda n: n + move)


def _resolution(text: str, resolution: str, unit: str) -> Decimal | None:
    if not resolution:
        return None
    found = _VALUE.fullmatch(resolution.strip())
    if found is None or found["unit"] not in ("", unit):
        raise UsageError(f"--resolution {resolution}", f"does not fit {text}", f"write a number of {unit or 'the same kind'}")  # fmt: skip
    return Decimal(found["number"])


def _until(text: str, low: Decimal, high: Decimal, following: object) -> list[Decimal]:
    assert callable(following)
    numbers, up = [low], high > low
    while True:
        after = following(numbers[-1])
        if (after >= high) if up else (after <= high):
            return [*numbers, high]
        numbers.append(after.quantize(Decimal("1e-9")))
        if len(numbers) > MAX_VALUES:
            raise _wrong(text, f"has more than {MAX_VALUES} values", "choose a larger step")


def _wrong(text: str, cause: str, remedy: str) -> UsageError:
    return UsageError(f"--set {text}", cause, remedy)
