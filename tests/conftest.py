"""A CI machine that promises root fails where a root test is skipped; what tests tell is printed at the end."""

from __future__ import annotations

import os
import re
from collections.abc import Generator

import pytest
from hypothesis import settings
from told import taken

# the same examples on every machine: a test that fails by chance teaches nobody
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

collect_ignore = ["sample_repo"]
"""A repository of its own: tests/integration/pytest_plugin runs it."""


_HOW_TO_PRINT = [
    "BUILD_NUMBER",
    "CI",
    "COLUMNS",
    "FORCE_COLOR",
    "LINES",
    "NO_COLOR",
    "PYTEST_ADDOPTS",
    "PY_COLORS",
]


def pytest_configure() -> None:
    """Programs started by tests print the same on every machine: pytest cuts its summary, unless it sees CI."""
    for name in list(os.environ):
        if name in _HOW_TO_PRINT or name.startswith("GITHUB_"):
            del os.environ[name]


_LONGEST_FIRST = (
    "net/test_net_guest",
    "run/test_run_undo",
    "run/test_run_verdicts",
    "run/test_run_bad",
    "targets/",
    "contract",
)
"""Parts of paths whose tests mostly wait: begun first, they pass beside the others."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker takes a whole file, and of the contract tests a whole family; the longest begin first."""

    def place(item: pytest.Item) -> int:
        return next((i for i, part in enumerate(_LONGEST_FIRST) if part in item.nodeid), len(_LONGEST_FIRST))

    items.sort(key=place)
    if not items or not items[0].config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        group = item.nodeid.partition("::")[0]
        if "/contract/" in group and (kind := re.search(r"\[(\w+)\.", item.nodeid)):
            group += kind[1]
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.user_properties += [("told", line) for line in taken()]
    promised = os.environ.get("CHAOSFLOW_EXPECT_ROOT") == "1"
    if promised and report.skipped and item.get_closest_marker("root"):
        report.outcome = "failed"
        report.longrepr = f"CHAOSFLOW_EXPECT_ROOT=1, yet this was skipped: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which mechanisms were used and what was measured, also in other workers and in the guest kernel."""
    reports = [r for some in terminalreporter.stats.values() for r in some if hasattr(r, "user_properties")]
    lines = {str(line): None for r in reports for name, line in r.user_properties if name == "told"}
    if lines:
        terminalreporter.section("used and measured")
        for line in sorted(lines):
            terminalreporter.write_line(line)
