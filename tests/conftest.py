"""A CI machine that promises root fails where a root test is skipped."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# the same examples on every machine: a test that fails by chance teaches nobody
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    promised = os.environ.get("CHAOSFLOW_EXPECT_ROOT") == "1"
    if promised and report.skipped and item.get_closest_marker("root"):
        report.outcome = "failed"
        report.longrepr = f"CHAOSFLOW_EXPECT_ROOT=1, yet this was skipped: {report.longrepr}"
    return report
