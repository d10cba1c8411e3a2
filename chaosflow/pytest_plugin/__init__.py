"""ChaosFlow in pytest: scenarios and faults as tests (docs/pytest.md).

Found by pytest through its entry point. Importing it loads nothing of ChaosFlow's: that waits for the first test
that asks for it.
"""

from __future__ import annotations

import pytest

from chaosflow.pytest_plugin.failures import (
    ChaosFailure,
    ChaosUsage,
    ChaosWarning,
    FaultUnavailable,
    MeasurementInvalid,
    NotUndone,
    SlaBroken,
    SlaUndecided,
)

__all__ = [
    "ChaosFailure",
    "ChaosUsage",
    "ChaosWarning",
    "FaultUnavailable",
    "MeasurementInvalid",
    "NotUndone",
    "SlaBroken",
    "SlaUndecided",
]

if pytest.version_tuple >= (8, 0):  # an older pytest is left alone: it cannot read our hooks
    from chaosflow.pytest_plugin.fixtures import (  # noqa: F401
        _chaos_rig,
        chaos_run,
        chaos_target,
        fault,
        slo_checker,
    )
    from chaosflow.pytest_plugin.hooks import (  # noqa: F401
        pytest_addoption,
        pytest_collection_modifyitems,
        pytest_configure,
        pytest_make_collect_report,
        pytest_runtest_call,
        pytest_runtest_makereport,
        pytest_runtest_protocol,
        pytest_runtest_teardown,
        pytest_sessionfinish,
    )
    from chaosflow.pytest_plugin.summary import pytest_terminal_summary  # noqa: F401
