"""What the charts show, apart from how they are drawn: panels, lines, limits and fault bands of one run.

Times are seconds from the beginning of the baseline. Colours are those of Okabe and Ito (2008), which
people with any common colour vision can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaosflow.reports.downsample import Column

SKY, BLUE, VERMILLION, GREEN = "#56b4e9", "#0072b2", "#d55e00", "#009e73"
ORANGE, PURPLE, YELLOW = "#e69f00", "#cc79a7", "#f0e442"
BAND_COLOURS = (ORANGE, PURPLE, GREEN, YELLOW, SKY)
BAND_HATCHES = ("right_diagonal_line", "left_diagonal_line", "dot", "horizontal_line", "vertical_line")
MAIN = "load"
"""Key of the source that holds the columns of ``RunResult.series``."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: ``column`` of ``source``."""

    label: str
    source: str
    column: str
    colour: str
    width: float = 1.6


@dataclass(frozen=True, slots=True)
class Limit:
    """An objective's limit, drawn only over the spans in which it is judged."""

    label: str
    y: float
    spans: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """A filled stretch between ``low`` and ``high`` (n,) over ``t`` (n,); NaN is a hole."""

    label: str
    colour: str
    alpha: float
    t: Column
    low: Column
    high: Column


@dataclass(frozen=True, slots=True, eq=False)
class Heat:
    """A picture: ``levels`` (rows from the bottom, columns) over the time from ``begin_s`` to ``end_s``."""

    levels: npt.NDArray[np.uint8]
    begin_s: float
    end_s: float
    most: int
    """The count of the darkest."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One chart of the column of charts."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    limits: tuple[Limit, ...] = ()
    y_max: float = 1.0
    hidden_limits: tuple[Limit, ...] = ()
    """Limits too far above the curves to be drawn; the caption names them."""
    areas: tuple[Area, ...] = ()
    """Drawn below the lines."""
    heat: Heat | None = None
    y_ticks: tuple[tuple[float, str], ...] = ()
    """(place, text); empty = round numbers."""

    @property
    def stacked(self) -> bool:
        """Whether the areas are what is shown, and not what surrounds the lines."""
        return bool(self.areas) and not self.lines


@dataclass(frozen=True, slots=True)
class Band:
    """One fault on the time axis; ``end_s`` is the revert, or the end of the run where there was none."""

    number: int
    name: str
    kind: str
    begin_s: float
    end_s: float
    colour: str
    hatch: str
    recovered_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChartBook:
    """All charts of a run; every panel shares the time axis ``begin_s`` to ``end_s``."""

    panels: tuple[Panel, ...]
    bands: tuple[Band, ...]
    sources: dict[str, dict[str, Column]]
    """Source name -> column name -> values; ``t`` is the time."""
    begin_s: float
    end_s: float
    reduced: bool = False
    """Whether rows were left out (minima and maxima kept)."""
