"""The error budget of one objective, how fast it was spent, and what sliding windows would have alarmed.

All of it is for looking at and for paging: it decides no verdict (chaosflow.sla.budget computes it,
docs/verdicts.md explains it). Seconds count from second 0 of the cell store.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alarm:
    """A stretch of time in which a condition held without a break."""

    begin_s: float
    """End of the first window in which it held: the moment at which one would have been told."""
    end_s: float
    peak: float
    """The largest value in it: a burn rate, or a share of exceedances."""
    n: int
    """Samples in the window of the peak."""


@dataclass(frozen=True, slots=True)
class BurnRate:
    """One pair of windows of a multi-window burn-rate rule (Site Reliability Workbook, chapter 5)."""

    factor: float
    """The alarm holds while both windows burn at least so fast; 1 = just the whole budget by the end."""
    long_s: float
    short_s: float
    budget_part: float
    """The share of the run's budget that is gone when the long window has burned at ``factor``."""
    peak: float
    """The highest burn rate of the long window, unrounded; 0 without samples."""
    peak_at_s: float | None
    """End of that window."""
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """What an objective allows over all segments it is judged in, and what was used."""

    allowed_share: float
    """p0: of n samples, so many may exceed."""
    n: int
    bad: int
    """Certain exceedances."""
    spent: float | None
    """bad / (allowed_share x n): 1 = all of it, more = overspent; None without samples, or where nothing is
    allowed."""
    period_s: float
    """From the first judged second to the last: what the windows are scaled to."""
    burn: tuple[BurnRate, ...] = ()

    @property
    def alarmed(self) -> bool:
        return any(b.alarms for b in self.burn)


@dataclass(frozen=True, slots=True)
class Sliding:
    """What a rule "the objective over the last ``window_s``, every second" would have said. Drawn, not judged."""

    window_s: float
    alarms: tuple[Alarm, ...] = ()
    """Stretches in which the share of exceedances in the window was above the allowed one."""
