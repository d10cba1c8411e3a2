"""What can go wrong, and the exit code each ends with.

ChaosflowError                  6  error of ours
├── UsageError                  2  nothing was touched
│   ├── ScenarioError           2  every problem of a scenario file, at once
│   └── CapabilityError         2  a fault cannot work here
├── MeasurementError            4  the run proves nothing (target never healthy, worker lost)
└── UndoError                   5  a fault could not be undone; beats all others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of ``chaosflow run`` (docs/exit-codes.md)."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INVALID = 4
    NOT_UNDONE = 5
    ERROR = 6
    INTERRUPTED = 130
    TERMINATED = 143


class ChaosflowError(Exception):
    """An error that names the thing, the cause and the remedy."""

    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, thing: str, cause: str, remedy: str = "") -> None:
        self.thing, self.cause, self.remedy = thing, cause, remedy
        super().__init__(f"{thing}: {cause}" + (f"; {remedy}" if remedy else ""))


class UsageError(ChaosflowError):
    exit_code = ExitCode.USAGE


class CapabilityError(UsageError):
    """A fault or target of the scenario cannot work on this machine."""


class MeasurementError(ChaosflowError):
    """The measurement is broken: whatever the numbers say, they decide nothing."""

    exit_code = ExitCode.INVALID


class UndoError(ChaosflowError):
    """A fault is still in place; ``remedy`` is the command that undoes it by hand."""

    exit_code = ExitCode.NOT_UNDONE


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a scenario file; line and column count from 1, 0 = not known."""

    file: str
    line: int
    column: int
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


class ScenarioError(UsageError):
    """All problems of a scenario at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = problems[0]
        super().__init__(first.file, f"{len(problems)} problem(s)", "")
        self.args = ("\n".join(str(p) for p in problems),)
