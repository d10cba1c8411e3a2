"""Everything of ChaosFlow that one pytest process holds: loop, standing target, watches not yet written down."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from chaosflow.pytest_plugin.options import Settings

if TYPE_CHECKING:
    from chaosflow.core.result import RunResult
    from chaosflow.orchestrator.injector import FaultRecord
    from chaosflow.orchestrator.options import Ended
    from chaosflow.orchestrator.prepare import Prepared
    from chaosflow.orchestrator.progress import Frame
    from chaosflow.orchestrator.standing import Standing
    from chaosflow.orchestrator.watch import Wanted, Watch

log = logging.getLogger("chaosflow")
AGAIN_S = 2.0
"""How long a user's server that was down when a test began is waited for by each later test."""


class LogView:
    """Shows a run as log records: silent by default, live with ``--log-cli-level=INFO``."""

    def frame(self, frame: Frame) -> None:
        return

    def event(self, at_s: float, what: str, text: str) -> None:
        log.info("%8.1f s  %s %s", at_s, what, text)


class Rig:
    """Made at the first use, closed at the end of the session. Its methods are called by the tests' thread."""

    def __init__(self, settings: Settings) -> None:
        from chaosflow.pytest_plugin.looper import Looper  # asyncio takes a moment to import

        self.settings = settings
        self._looper = Looper()
        self._standing: Standing | None = None
        self._was_down = False
        self._unwritten: list[Watch] = []
        self._names: set[str] = set()
        self.watch: Watch | None = None

    # -- the target
    def standing(self) -> Standing:
        """The target of the suite, started at the first call. Raises ChaosflowError."""
        from chaosflow.orchestrator.catalogue import load_atoms
        from chaosflow.orchestrator.standing import Standing

        if self._standing is None:
            spec = self.settings.target()
            brief = spec.model_copy(update={"ready_timeout": min(AGAIN_S, spec.ready_timeout)})
            made = Standing(
                brief if self._was_down else spec,
                load_atoms(),
                self.settings.runs_dir,
                lambda t: log.info("%s", t),
            )
            self._was_down = bool(spec.url)
            self._looper.call(made.up())
            self._was_down, made.spec = False, spec
            self._standing = made
        return self._standing

    def begin_test(self) -> None:
        """Names of faults count anew; the target must answer. Raises ChaosflowError."""
        self._names.clear()
        standing = self.standing()
        self._looper.call(standing.settle())

    def end_test(self) -> None:
        """Undo and write down whatever a test left. Raises UndoError."""
        watch, self.watch = self.watch, None
        try:
            if watch is not None:
                self._looper.call(watch.abandon())
            if self._standing is not None:
                self._looper.call(self._standing.revert_all())
        finally:
            self._write(every=True)

    # -- faults
    def inject(self, kind: str, name: str, params: Mapping[str, Any]) -> FaultRecord:
        """Raises ChaosflowError; see Standing.inject."""
        from chaosflow.orchestrator.byhand import make_atom

        standing = self.standing()
        atom = make_atom(kind, params, standing.atoms)
        return self._looper.call(standing.inject(self._name(name or atom.kind, given=bool(name)), atom))

    def _name(self, wanted: str, *, given: bool) -> str:
        """A name for a segment that this test has not used yet: ``proxy-latency``, ``proxy-latency-2``."""
        from chaosflow.core.errors import UsageError
        from chaosflow.core.slo import RESERVED_NAMES

        name = wanted if given else wanted.replace(".", "-").replace("_", "-")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name) or name in RESERVED_NAMES:
            raise UsageError(f"fault name {name!r}", "cannot be a name", "use letters, digits, '-' and '_'")
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}-{number}"
        self._names.add(unique)
        return unique

    def look_again(self, record: FaultRecord) -> None:
        """Raises MeasurementError where the effect was lost or met nothing."""
        self._looper.call(self.standing().look_again(record))

    def revert(self, record: FaultRecord) -> None:
        """Raises UndoError."""
        try:
            self._looper.call(self.standing().revert(record))
        finally:
            self._write()

    # -- load
    def begin_watch(self, wanted: Wanted) -> Watch:
        """Start load on the target; returns when the warm-up is over. Raises ChaosflowError."""
        from chaosflow.core.errors import UsageError
        from chaosflow.orchestrator.watch import Watch

        if self.watch is not None:
            raise UsageError(
                "slo_checker", "load is being driven already", "end it first; with the marker slo, use hold()"
            )
        standing = self.standing()
        watch = Watch(standing, wanted)
        self._looper.call(watch.begin())
        self.watch = watch
        return watch

    def hold(self, seconds: float) -> None:
        """Let time pass; returns early when the watch that goes on proves nothing any more. Raises UsageError."""
        from chaosflow.core.errors import UsageError

        if self.watch is None:
            raise UsageError("slo_checker.hold", "no load is being driven", "add @pytest.mark.slo(…)")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self.watch.sound:
                return
            time.sleep(min(0.1, left))

    def end_watch(self, cut: str = "") -> RunResult:
        """End the load that goes on, and judge. ``cut``: why the test's own code ended early."""
        assert self.watch is not None
        watch, self.watch = self.watch, None
        self._unwritten.append(watch)
        try:
            return self._looper.call(watch.end(cut))
        except BaseException:
            self._unwritten.remove(watch)
            raise
        finally:
            self._write()

    def _write(self, *, every: bool = False) -> None:
        """Write down the watches whose faults have all been undone."""
        for watch in list(self._unwritten):
            if every or watch.settled:
                self._unwritten.remove(watch)
                watch.write()

    # -- scenarios
    def run(self, prepared: Prepared, command: Sequence[str]) -> Ended:
        """Carry a scenario out. Raises ChaosflowError, or the interrupt that ended it; all is undone then."""
        from chaosflow.core.clock import SystemClock
        from chaosflow.orchestrator.options import Options
        from chaosflow.orchestrator.stopping import Stop, Why

        stop = Stop(SystemClock())
        options = Options(self.settings.runs_dir, command, stop=stop)
        return self._looper.call(
            prepared.execute(options, LogView()),
            on_interrupt=lambda: stop.ask(Why.INTERRUPTED, "interrupted in pytest"),
        )

    def close(self) -> None:
        """Undo everything, end everything. Raises UndoError. Safe to call twice."""
        try:
            if self._standing is not None:
                standing, self._standing = self._standing, None
                try:
                    if self.watch is not None:
                        watch, self.watch = self.watch, None
                        self._looper.call(watch.abandon())
                finally:
                    self._looper.call(standing.down())
                    self._write(every=True)
        finally:
            self._looper.close()


_RIG: pytest.StashKey[Rig] = pytest.StashKey()


def rig_of(config: pytest.Config) -> Rig:
    """The one rig of this pytest process, made at the first call."""
    if _RIG not in config.stash:
        config.stash[_RIG] = Rig(Settings.of(config))
    return config.stash[_RIG]


def close_rig(config: pytest.Config) -> None:
    """Raises UndoError where something could not be undone. Does nothing without a rig."""
    rig = config.stash.get(_RIG, None)
    if rig is not None:
        del config.stash[_RIG]
        rig.close()


def is_open(config: pytest.Config) -> bool:
    return _RIG in config.stash
