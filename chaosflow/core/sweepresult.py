"""What a sweep leaves (``sweep.json``), and where along an axis the service breaks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from pydantic import Field

from chaosflow.core.result import Part

SCHEMA_VERSION = 1
DECIDED = ("pass", "fail")


class AxisResult(Part):
    path: str
    short: str
    values: list[str]
    """From the mildest to the harshest."""
    numbers: list[float] | None = None
    unit: str = ""


class PointObjective(Part):
    """One objective at one point, in the segment nearest to its limit; units as in ObjectiveResult."""

    text: str
    metric: str
    kind: str
    state: str
    segment: str = ""
    limit: float | None = None
    observed: float | None = None
    low: float | None = None
    high: float | None = None


class PointResult(Part):
    """One combination of values: the run that decided it, or the last of those that did not."""

    values: dict[str, str]
    """Path -> value."""
    state: str
    exit_code: int
    reason: str
    runs: list[str]
    """Folders below the sweep's own, in order; the last one counts."""
    wall_s: float = 0.0
    objectives: list[PointObjective] = Field([])


class Breaking(Part):
    """Where one line of values, mild to harsh with all else fixed, breaks."""

    axis: str
    fixed: dict[str, str] = Field({})
    """The other axes' values on this line."""
    verdict: str
    """``found``, ``all_pass``, ``none_passes``, ``undecided``, ``out_of_order`` or ``not_run``."""
    holds_up_to: str | None = None
    """The harshest value that passed with no failing one before it."""
    breaks_at: str | None = None
    """The mildest value that failed."""
    undecided: list[str] = Field([])
    """Values whose runs decided nothing; counted as not passing."""
    out_of_order: list[str] = Field([])
    """Values that passed beyond one that failed."""
    sentence: str = ""


class SweepResult(Part):
    schema_version: int = SCHEMA_VERSION
    sweep_id: str
    name: str
    """The scenario's."""
    mode: str
    """``grid`` or ``bisect``."""
    axes: list[AxisResult]
    points: list[PointResult] = Field([])
    """In the order in which they were run."""
    breaking: list[Breaking] = Field([])
    state: str = "inconclusive"
    exit_code: int = 3
    reason: str = ""
    stopped: str = ""
    """Why not every planned run was made."""
    planned_runs: int = 0
    retries: int = 0
    started_utc: str = ""
    ended_utc: str = ""
    wall_s: float = 0.0
    estimated_s: float = 0.0
    command: list[str] = Field([])
    version: str = ""
    simulated: list[str] = Field([])


def strain(metric: str, observed: float | None, limit: float | None) -> float:
    """How near an observation is to its limit: above 1 is beyond it; 0 where nothing was observed."""
    if observed is None or not limit:
        return 0.0
    ratio = abs(observed) / limit
    if metric in ("goodput", "completeness"):
        return 1 / ratio if ratio else math.inf
    return ratio


def main_axis(axes: Sequence[AxisResult]) -> AxisResult:
    """The axis along which a breaking point is looked for: the first one of numbers, else the first."""
    return next((axis for axis in axes if axis.numbers is not None), axes[0])


def lines(axes: Sequence[AxisResult]) -> list[dict[str, str]]:
    """Every combination of the other axes' values."""
    others = [axis for axis in axes if axis.path != main_axis(axes).path]
    return [
        dict(zip((a.path for a in others), combination, strict=True))
        for combination in product(*(axis.values for axis in others))
    ]


def find_breaking(axes: Sequence[AxisResult], points: Sequence[PointResult]) -> list[Breaking]:
    """One breaking point for each line of the main axis."""
    axis = main_axis(axes)
    found = []
    for fixed in lines(axes):
        on_line = {
            point.values[axis.path]: point.state
            for point in points
            if all(point.values[path] == value for path, value in fixed.items())
        }
        found.append(_line(axis, fixed, [(v, on_line[v]) for v in axis.values if v in on_line]))
    return found


def told(line: Breaking, axes: Sequence[AxisResult]) -> str:
    """The sentence of a line, with the values that were fixed on it where there are other axes."""
    short = {axis.path: axis.short for axis in axes}
    fixed = ", ".join(f"{short[path]} = {value}" for path, value in line.fixed.items())
    return f"{fixed}: {line.sentence}" if fixed else line.sentence


def _line(axis: AxisResult, fixed: dict[str, str], seen: Sequence[tuple[str, str]]) -> Breaking:
    """``seen``: (value, state) of the values that were run, mild to harsh."""
    order = [value for value, _ in seen]
    passed = [value for value, state in seen if state == "pass"]
    failed = next((value for value, state in seen if state == "fail"), None)
    before = order[: order.index(failed)] if failed is not None else order
    line = Breaking(
        axis=axis.path,
        fixed=fixed,
        verdict="undecided",
        holds_up_to=next((v for v in reversed(before) if v in passed), None),
        breaks_at=failed,
        undecided=[value for value, state in seen if state not in DECIDED],
        out_of_order=[v for v in passed if v not in before],
    )
    line.verdict = _verdict(axis, line, order, passed)
    line.sentence = _sentence(axis, line, dict(seen))
    return line


def _verdict(axis: AxisResult, line: Breaking, order: Sequence[str], passed: Sequence[str]) -> str:
    if not order:
        return "not_run"
    if line.out_of_order:
        return "out_of_order"
    if line.breaks_at is None:
        return "all_pass" if axis.values[-1] in passed else "undecided"
    if line.holds_up_to is not None:
        return "found"
    return "none_passes" if order[0] == line.breaks_at == axis.values[0] else "undecided"


def _sentence(axis: AxisResult, line: Breaking, states: Mapping[str, str]) -> str:
    name, holds, breaks = axis.short, line.holds_up_to, line.breaks_at
    beside = ", ".join(f"{v} ({states[v]})" for v in line.undecided)
    open_ = f"; undecided, so counted as not passing: {beside}" if beside else ""
    match line.verdict:
        case "not_run":
            return "no value was run"
        case "all_pass":
            return f"holds up to {name} = {holds}, the harshest value tried{open_}"
        case "none_passes":
            return f"already {name} = {breaks}, the mildest value, fails{open_}"
        case "found":
            return f"holds up to {name} = {holds} and breaks at {breaks}{open_}"
        case "out_of_order":
            mild = f"holds up to {holds}, " if holds else ""
            return (
                f"no clear breaking point in {name}: {mild}fails at {breaks}, "
                f"yet passes at {', '.join(line.out_of_order)}{open_}"
            )
    if breaks is not None:
        return f"fails at {name} = {breaks}, and no milder value was shown to pass{open_}"
    if holds is not None:
        return f"holds up to {name} = {holds}; where it breaks is not known{open_}"
    return f"no value of {name} was decided{open_}"
