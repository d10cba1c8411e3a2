"""ChaosFlow's errors as what they mean for a test."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import pytest

from chaosflow.pytest_plugin.failures import (
    ChaosFailure,
    ChaosUsage,
    FaultUnavailable,
    MeasurementInvalid,
    NotUndone,
)
from chaosflow.pytest_plugin.options import Settings

_HERE = str(Path(__file__).parent)


class errors:
    """A mistake in the use of ChaosFlow shows the test's own line; what was measured shows no traceback.

    A class and no generator, so that a traceback has no frames of contextlib's.
    """

    def __init__(self, settings: Settings) -> None:
        self._cannot = settings.cannot

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if not isinstance(error, Exception):
            return
        from chaosflow.core.errors import (
            CapabilityError,
            ChaosflowError,
            MeasurementError,
            UndoError,
            UsageError,
        )

        if isinstance(error, CapabilityError):
            if self._cannot == "skip":
                pytest.skip(str(error))
            raise FaultUnavailable(f"{error}\n(--chaos-cannot=skip skips such tests)") from None
        if isinstance(error, UsageError):
            raise ChaosUsage(str(error)) from None
        if isinstance(error, MeasurementError):
            raise MeasurementInvalid(str(error)) from None
        if isinstance(error, UndoError):
            raise NotUndone(str(error)) from None
        if isinstance(error, ChaosflowError):
            raise ChaosFailure(str(error)) from None


def where() -> str:
    """``tests/test_chat.py:12``: the line outside of this package that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_HERE) and not file.endswith("contextlib.py"):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
