"""Which runs a sweep is made of: its axes, every point checked beforehand, how long it will take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from chaosflow.core.axis import Axis, parse_axis
from chaosflow.core.errors import UsageError
from chaosflow.orchestrator.prepare import Prepared, prepare

OVERHEAD_S = 3.0
"""Of one run, beyond its timeline: start, drain, verdict, reports."""
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Every point, checked beforehand: nothing has been touched yet."""

    axes: tuple[Axis, ...]
    points: dict[Values, Prepared]
    bisect: bool
    retries: int
    """How often an undecided run is repeated."""

    @property
    def most_points(self) -> int:
        """Points that are run, at most; retries not counted."""
        if not self.bisect:
            return len(self.points)
        return min(len(self.points), 2 + math.ceil(math.log2(max(1, len(self.points) - 1))))

    @property
    def estimate_s(self) -> float:
        """Wall time if nothing is repeated; for a bisection, if it needs every step."""
        each = [p.timeline.total_s + OVERHEAD_S for p in self.points.values()]
        return sum(sorted(each)[-self.most_points :])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of all points, each once."""
        return tuple(dict.fromkeys(w for p in self.points.values() for w in p.warnings))

    def names(self, values: Values) -> dict[str, str]:
        """Path -> value."""
        return dict(zip((axis.path for axis in self.axes), values, strict=True))


def plan_sweep(
    source: str,
    settings: Sequence[str],
    *,
    bisect: bool = False,
    resolution: str = "",
    retries: int | None = None,
    max_runs: int = 100,
) -> SweepPlan:
    """Read the axes and check every point. Reads only.

    ``retries`` None: once when bisecting, where one undecided run would mislead all that follow, else
    never. Raises UsageError (ScenarioError for values that the scenario refuses).
    """
    axes: list[Axis] = []
    fixed: list[str] = []
    for text in settings:
        axis = parse_axis(text, resolution, divide=bisect)
        axes.append(axis) if axis else fixed.append(text)
    _refuse_what_cannot_be_swept(axes, bisect, resolution, max_runs)
    points = {
        values: _prepared(source, fixed, axes, values) for values in product(*(axis.values for axis in axes))
    }
    return SweepPlan(tuple(axes), points, bisect, (1 if bisect else 0) if retries is None else retries)


def _prepared(source: str, fixed: Sequence[str], axes: Sequence[Axis], values: Values) -> Prepared:
    """The scenario at one point. An error says at which one."""
    pairs = list(zip(axes, values, strict=True))
    try:
        return prepare(source, [*fixed, *(axis.override(value) for axis, value in pairs)])
    except UsageError as e:
        e.args = (f"at {', '.join(f'{axis.short}={value}' for axis, value in pairs)}: {e}",)
        raise


def _refuse_what_cannot_be_swept(axes: Sequence[Axis], bisect: bool, resolution: str, max_runs: int) -> None:
    if not axes:
        raise UsageError(
            "sweep", "there is nothing to vary",
            "give --set PATH=V1,V2,… or PATH=LO..HI:STEP, from the mildest value to the harshest",
        )  # fmt: skip
    paths = [axis.path for axis in axes]
    if len(set(paths)) < len(paths):
        raise UsageError("sweep", "one path is varied twice", "write all its values in one --set")
    if bisect and (len(axes) > 1 or axes[0].numbers is None):
        raise UsageError(
            "--bisect", "needs exactly one axis, of numbers", "fix the others, or leave --bisect out"
        )
    if resolution and not bisect:
        raise UsageError("--resolution", "is only for --bisect", "write the step into the range: LO..HI:STEP")
    runs = math.prod(len(axis.values) for axis in axes)
    if runs > max_runs and not bisect:
        raise UsageError(
            "sweep", f"that would be {runs} runs", f"fewer values, --bisect, or --max-runs {runs}"
        )
