"""The fixtures: ``chaos_target``, ``fault``, ``slo_checker``, ``chaos_run``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from chaosflow.pytest_plugin import translate
from chaosflow.pytest_plugin.failures import MeasurementInvalid
from chaosflow.pytest_plugin.load import seconds, wanted_of
from chaosflow.pytest_plugin.rig import Rig, rig_of
from chaosflow.pytest_plugin.verdicts import ChaosRun, cut_by, enforce, note

if TYPE_CHECKING:
    from chaosflow.orchestrator.injector import FaultRecord

RUN: pytest.StashKey[ChaosRun] = pytest.StashKey()
FAULTS: pytest.StashKey[FaultMaker] = pytest.StashKey()


class ChaosTarget:
    """The service under test. It stands for the whole session; faults of a test are undone before the next."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    @property
    def url(self) -> str:
        """Base URL for a test's own client, ending in ``/v1``; through the fault proxy (not for https)."""
        return self._rig.standing().address().url

    @property
    def direct_url(self) -> str:
        """Past the fault proxy."""
        return self._rig.standing().address().direct_url

    @property
    def model(self) -> str:
        return self._rig.standing().address().model

    @property
    def included(self) -> bool:
        """Whether this is the engine that ships with ChaosFlow."""
        return self._rig.standing().handle.included

    @property
    def pids(self) -> list[int]:
        """Roots of its process trees now; empty where nobody said how to find them."""
        return [ref.pid for ref in self._rig.standing().handle.processes]

    def __repr__(self) -> str:
        return f"<ChaosTarget {self.url}>"


class Fault:
    """One fault, acting inside its ``with`` block: verified when it begins, undone and verified when it ends."""

    def __init__(self, rig: Rig, kind: str, name: str, params: dict[str, Any]) -> None:
        self._rig, self.kind, self._params = rig, kind, params
        self.name = name
        self._record: FaultRecord | None = None
        self.entered = False

    def __repr__(self) -> str:
        return f"<fault {self.name or self.kind}>"

    @property
    def evidence(self) -> str:
        """What was seen of its effect, in words."""
        return self._record.evidence if self._record else ""

    def __enter__(self) -> Fault:
        __tracebackhide__ = True
        self.entered = True
        with translate.errors(self._rig.settings):
            self._record = self._rig.inject(self.kind, self.name, self._params)
        self.name = self._record.name
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        assert self._record is not None
        record, self._record = self._record, self._record
        with translate.errors(self._rig.settings):
            try:
                if error is None:
                    self._rig.look_again(record)
            finally:
                self._rig.revert(record)


class FaultMaker:
    """``with fault("proxy.latency", delay_ms=40): …``; the kinds are in docs/faults.md."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._made: list[Fault] = []

    def __call__(self, kind: str, /, *, name: str = "", **params: Any) -> Fault:
        """A fault that acts inside a ``with`` block. ``name`` names its window in objectives and reports."""
        made = Fault(self._rig, kind, name, params)
        self._made.append(made)
        return made

    def __repr__(self) -> str:
        return f"<fault: {len(self._made)} made>"

    def require_used(self) -> None:
        """Raise where a fault was made and never entered: its test has tested nothing."""
        idle = [made.kind for made in self._made if not made.entered]
        if idle:
            raise MeasurementInvalid(f"fault {', '.join(idle)}: never injected; write 'with fault(…):'")


class SloChecker:
    """Drives load on the target and judges objectives on it."""

    def __init__(self, rig: Rig, item: pytest.Item) -> None:
        self._rig, self._item, self._count = rig, item, 0

    def __repr__(self) -> str:
        return f"<slo_checker: {self._count} asked>"

    def measure(self, *objectives: str, duration: str | float = "10s", **load: Any) -> ChaosRun:
        """Drive load for ``duration``, judge, and return it, whatever the verdict. Fails nothing."""
        __tracebackhide__ = True
        with translate.errors(self._rig.settings):
            length_s = seconds("duration", duration)
            self._begin(objectives, load)
            self._rig.hold(length_s)
            return self._end("check")

    def check(self, *objectives: str, duration: str | float = "10s", **load: Any) -> ChaosRun:
        """Drive load for ``duration``; the test fails unless every objective holds.

        Inside a fault the window is that fault's, else ``baseline``. ``load``: rate_per_s (20),
        prompt_tokens (64), output_tokens (16), warmup ("1s"), window, seed, load={…}.
        """
        __tracebackhide__ = True
        run = self.measure(*objectives, duration=duration, **load)
        enforce(self._item, run, self._rig.settings.inconclusive)
        return run

    @contextlib.contextmanager
    def watch(self, *objectives: str, **load: Any) -> Iterator[None]:
        """Drive load while the block runs; every window in it (baseline, faults, recoveries) is judged at its end."""
        __tracebackhide__ = True
        with translate.errors(self._rig.settings):
            self._begin(objectives, load)
        try:
            yield
        except BaseException as e:
            with contextlib.suppress(Exception):  # the block's own error is the one to see
                self._end("watch", cut_by(e))
            raise
        with translate.errors(self._rig.settings):
            run = self._end("watch")
        enforce(self._item, run, self._rig.settings.inconclusive)

    def hold(self, duration: str | float) -> None:
        """Let the load go on for that long: inside ``watch``, or in a test with the marker slo."""
        __tracebackhide__ = True
        with translate.errors(self._rig.settings):
            length_s = seconds("duration", duration)
            self._rig.hold(length_s)

    def _begin(self, objectives: Sequence[str], load: dict[str, Any]) -> None:
        self._count += 1
        name = self._item.name if self._count == 1 else f"{self._item.name[:58]}-{self._count}"
        command = ["pytest", self._item.nodeid]
        self._rig.begin_watch(wanted_of(name, objectives, load, command))

    def _end(self, what: str, cut: str = "") -> ChaosRun:
        assert self._rig.watch is not None
        folder = Path(self._rig.watch.folder)
        run = ChaosRun(self._rig.end_watch(cut), folder)
        run.asked_at = translate.where()
        note(self._item, run, what)
        return run


@pytest.fixture(scope="session")
def chaos_target(request: pytest.FixtureRequest) -> ChaosTarget:
    """The service under test: the included engine, or the server of --chaos-url. Has url, model, pids."""
    rig = rig_of(request.config)
    with translate.errors(rig.settings):
        rig.standing()
    return ChaosTarget(rig)


@pytest.fixture
def _chaos_rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = rig_of(request.config)
    with translate.errors(rig.settings):
        rig.begin_test()
    yield rig
    with translate.errors(rig.settings):
        rig.end_test()


@pytest.fixture
def fault(_chaos_rig: Rig, request: pytest.FixtureRequest) -> FaultMaker:
    """Injects faults: with fault("proxy.latency", delay_ms=40): …  Verified, and always undone."""
    maker = FaultMaker(_chaos_rig)
    request.node.stash[FAULTS] = maker
    return maker


@pytest.fixture
def slo_checker(_chaos_rig: Rig, request: pytest.FixtureRequest) -> SloChecker:
    """Drives load and judges it: slo_checker.check("ttft.p95 <= 1s", duration="10s")."""
    return SloChecker(_chaos_rig, request.node)


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest) -> ChaosRun:
    """The finished run of @pytest.mark.chaos: state, reason, fault(name), objective(text), segment(name)."""
    run = ChaosRun()
    request.node.stash[RUN] = run
    return run
