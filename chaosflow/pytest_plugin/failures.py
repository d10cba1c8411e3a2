"""What a test fails with: the window and the numbers, and no traceback through our code.

ChaosFailure               an error of ours
├── NotUndone              a fault is still in place: the session ends here
├── SlaBroken              an objective does not hold
├── SlaUndecided           too few samples to say (--chaos-inconclusive)
├── MeasurementInvalid     the measurement proves nothing: a fault without effect, a late client, no steady state
├── FaultUnavailable       a fault cannot work on this machine (--chaos-cannot)
└── ChaosUsage             a mistake in the test: unknown fault, wrong param; shows the test's own line
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.outcomes import Failed
else:
    Failed = pytest.fail.Exception


class ChaosFailure(Failed):
    """Like ``pytest.fail``: no ``except Exception`` of a test can swallow it."""

    __module__ = "builtins"  # so that reports name it without a path

    def __init__(self, text: str, *, pytrace: bool = False) -> None:
        super().__init__(text, pytrace=pytrace)


class SlaBroken(ChaosFailure):
    __module__ = "builtins"


class SlaUndecided(ChaosFailure):
    __module__ = "builtins"


class MeasurementInvalid(ChaosFailure):
    __module__ = "builtins"


class FaultUnavailable(ChaosFailure):
    __module__ = "builtins"


class NotUndone(ChaosFailure):
    __module__ = "builtins"


class ChaosUsage(ChaosFailure):
    __module__ = "builtins"

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=True)


class ChaosWarning(pytest.PytestWarning):
    """An inconclusive verdict under ``--chaos-inconclusive=warn``, or a warning about a scenario."""


BY_STATE: dict[str, type[ChaosFailure]] = {
    "fail": SlaBroken,
    "inconclusive": SlaUndecided,
    "invalid": MeasurementInvalid,
}
"""Every other state that is no pass is a ChaosFailure."""
