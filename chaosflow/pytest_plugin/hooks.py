"""Where ChaosFlow takes part in a pytest session."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

from chaosflow.pytest_plugin import marks, translate
from chaosflow.pytest_plugin.failures import ChaosFailure, NotUndone
from chaosflow.pytest_plugin.fixtures import FAULTS, RUN
from chaosflow.pytest_plugin.load import wanted_of
from chaosflow.pytest_plugin.lock import machine_lock
from chaosflow.pytest_plugin.options import Settings, add_options
from chaosflow.pytest_plugin.rig import Rig, close_rig, log, rig_of
from chaosflow.pytest_plugin.verdicts import OUTCOMES, ChaosRun, cut_by, enforce, note

GROUP = "chaosflow"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    for line in marks.LINES:
        config.addinivalue_line("markers", line)
    Settings.of(config)  # a wrong value stops the session before it has begun


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A marker that cannot work is an error of collection, with file and line; all of a file at once."""
    report = yield
    items = [i for i in report.result or () if isinstance(i, pytest.Item) and marks.uses_chaos(i)]
    if report.outcome != "passed" or not items:
        return report
    settings = Settings.of(collector.config)
    problems = dict.fromkeys(p for item in items for p in marks.problems_of(item, settings))
    if problems:
        report.outcome = "failed"
        report.longrepr = "\n".join(problems)
        report.result = []
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` all chaos tests go to one worker: they act on one target."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if marks.uses_chaos(item):
            item.add_marker(pytest.mark.xdist_group(GROUP), append=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Outermost, so that pytest-timeout does not count the wait for the lock."""
    if not marks.uses_chaos(item):
        return (yield)
    with machine_lock():
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Innermost: the scenario runs before the body, or load is driven beside it."""
    if not marks.uses_chaos(item):
        return (yield)
    yield from _call(item)
    if FAULTS in item.stash:
        item.stash[FAULTS].require_used()
    return None


def _call(item: pytest.Item) -> Generator[None, None, None]:
    """The body, with what its markers ask for before or around it."""
    rig = rig_of(item.config)
    with translate.errors(rig.settings):
        chaos, slo = marks.chaos_of(item), marks.slo_of(item)
    if chaos is not None:
        _run_scenario(item, rig, chaos, slo)
        slo = None  # judged on the scenario
    if slo is None:
        yield
        return
    with translate.errors(rig.settings):
        _begin_watch(item, rig, slo)
    try:
        yield
    except BaseException as e:
        with contextlib.suppress(Exception, ChaosFailure):  # the body's own error is the one to see
            _end_watch(item, rig, cut_by(e))
        raise
    run = _end_watch(item, rig)
    if run is not None:
        enforce(item, run, rig.settings.inconclusive)


def _run_scenario(item: pytest.Item, rig: Rig, chaos: marks.ChaosMark, slo: marks.SloMark | None) -> None:
    with translate.errors(rig.settings):
        prepared = marks.prepare(item, rig.settings, chaos, slo)
        for warning in prepared.warnings:
            log.warning("%s", warning)
        ended = rig.run(prepared, ["pytest", item.nodeid])
    run = ChaosRun(ended.result, ended.folder)
    if RUN in item.stash:
        item.stash[RUN].fill(run)
    note(item, run, "scenario")
    enforce(item, run, rig.settings.inconclusive, chaos.expect)


def _begin_watch(item: pytest.Item, rig: Rig, slo: marks.SloMark) -> None:
    rig.begin_test()
    rig.begin_watch(wanted_of(item.name, slo.objectives, slo.keywords, ["pytest", item.nodeid]))


def _end_watch(item: pytest.Item, rig: Rig, cut: str = "") -> ChaosRun | None:
    """None where nothing goes on any more."""
    if rig.watch is None:
        return None
    folder = Path(rig.watch.folder)
    with translate.errors(rig.settings):
        run = ChaosRun(rig.end_watch(cut), folder)
    note(item, run, "test")
    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, NotUndone):
        item.session.shouldfail = "a fault could not be undone; nothing more is tested on this machine"
    if report.when != "setup" and (outcomes := item.stash.get(OUTCOMES, None)):
        report.chaosflow = [dict(o) for o in outcomes]  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """What a test left is undone in its own teardown; after the last test, everything is taken down.

    A failure here is an error of that test: one in a summary would leave everything green.
    """
    try:
        yield
    finally:
        if marks.uses_chaos(item) and item.get_closest_marker("slo") is not None:
            rig = rig_of(item.config)
            with translate.errors(rig.settings):
                rig.end_test()
        if nextitem is None:
            with translate.errors(Settings.of(item.config)):
                close_rig(item.config)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After -x, an interrupt, or nothing at all: the last test's teardown may not have come."""
    from chaosflow.pytest_plugin import rig

    if not rig.is_open(session.config):
        return
    try:
        close_rig(session.config)
    except Exception as e:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        session.config.issue_config_time_warning(pytest.PytestWarning(str(e)), stacklevel=2)
