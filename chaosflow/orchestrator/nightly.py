"""A nightly: run a suite, repeat what looks changed, judge it beside the nights before.

One at a time on a machine: two would disturb each other's measurement. A signal ends the run in
progress, with everything undone, and then the nightly: what there is gets judged and reported.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaosflow.core.clock import SystemClock, utc_now
from chaosflow.core.errors import ChaosflowError, ExitCode, UsageError
from chaosflow.core.journal import state_dir
from chaosflow.orchestrator.environment import fingerprint
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.orchestrator.options import Ended, Options
from chaosflow.orchestrator.prepare import Prepared
from chaosflow.orchestrator.progress import View
from chaosflow.orchestrator.stopping import Stop, Why
from chaosflow.orchestrator.suite import LoadedSuite
from chaosflow.reports.history.entry import Entry, entry_of
from chaosflow.reports.history.judge import Policy, points_of, suspicious
from chaosflow.reports.history.metrics import METRICS, shown
from chaosflow.reports.history.night import Night, Tonight, conclude, split_series
from chaosflow.reports.history.record import NOT_RECORDED
from chaosflow.reports.history.report import NightlyReport
from chaosflow.reports.history.store import HISTORY_FILE, History

LOCK_FILE = "nightly.lock"
_SIGNALS = {
    signal.SIGINT: (Why.INTERRUPTED, ExitCode.INTERRUPTED),
    signal.SIGTERM: (Why.TERMINATED, ExitCode.TERMINATED),
    signal.SIGHUP: (Why.TERMINATED, ExitCode.TERMINATED),
}


@dataclass(slots=True)
class Nightly:
    """Runs a loaded suite once. ``view`` makes the view of one run; ``tell`` says a line."""

    loaded: LoadedSuite
    runs_dir: Path
    view: Callable[[Prepared], AbstractContextManager[View]]
    tell: Callable[[str], None]
    history: Path | None = None
    command: Sequence[str] = ()
    session: str = field(default_factory=lambda: _new_session())
    metrics: LiveMetrics = field(default_factory=LiveMetrics)
    """Told of every run; counts on over all of them."""
    _ended_by: signal.Signals | None = None
    _stop: Stop | None = None

    @property
    def history_path(self) -> Path:
        return self.history or self.runs_dir / HISTORY_FILE

    @property
    def policy(self) -> Policy:
        return self.loaded.suite.policy()

    def judge_only(self) -> NightlyReport:
        """Run nothing: judge the newest night that the history holds. Raises UsageError without history."""
        night = self._night([])
        with History.read(self.history_path) as opened:
            night.earlier = {name: opened.entries(name) for name in self.loaded.names}
        return conclude(night)

    def run(self) -> NightlyReport:
        """Run the suite. Raises UsageError where another nightly runs here, or the history is unreadable."""
        with _only_one():
            return asyncio.run(self._run())

    async def _run(self) -> NightlyReport:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        night = self._night([Tonight(name) for name in self.loaded.names])
        self._look_back(night)
        for index, tonight in enumerate(night.tonight):
            if self._ended_by is not None or night.not_undone:
                tonight.skipped = (
                    "the nightly was ended before" if self._ended_by else "a fault is still in place"
                )
                continue
            await self._scenario(index, tonight, night)
        if self._ended_by is not None:
            night.ended_early = f"ended by {self._ended_by.name}"
            night.signal_code = int(_SIGNALS[self._ended_by][1])
        return conclude(night)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._ended_by is None:
            self._ended_by = number
        if self._stop is not None:
            why = _SIGNALS[self._ended_by][0]
            self._stop.ask(why, f"{why.value} by {self._ended_by.name}")

    def _night(self, tonight: list[Tonight]) -> Night:
        return Night(
            session=self.session,
            suite=self.loaded.path.name,
            started_utc=utc_now(),
            policy=self.policy,
            tonight=tonight,
            environment=fingerprint(),
        )

    def _look_back(self, night: Night) -> None:
        """The nights before. Raises UsageError: a nightly that cannot keep its history judges nothing."""
        keep = self.loaded.suite.keep
        with History.open(self.history_path) as opened:
            if keep is not None:
                before = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - keep))
                if forgotten := opened.prune(before):
                    self.tell(f"history: {forgotten} runs before {before[:10]} forgotten")
            night.earlier = {name: opened.entries(name) for name in self.loaded.names}

    async def _scenario(self, index: int, tonight: Tonight, night: Night) -> None:
        """One scenario, and again while it is a suspect and a repeat is left."""
        prepared: Prepared = self.loaded.prepared[index]
        because = ""
        for attempt in range(self.loaded.suite.repeat + 1):
            if attempt:
                self.tell(f"{tonight.name}: again, {because}")
                prepared = self.loaded.again(index)
            else:
                self.tell(f"{tonight.name}: run {index + 1} of {len(night.tonight)}")
            ended = await self._one_run(prepared, tonight, night)
            if ended is None:
                return
            tonight.add(
                entry_of(ended.result, ended.folder, self.session),
                because,
                _report_path(ended, self.runs_dir),
            )
            for text in (*(n for n in ended.result.notes if n.startswith(NOT_RECORDED)), ended.trouble):
                if text:
                    self.tell(f"{tonight.name}: {text}")
            if ended.not_undone:
                night.not_undone += ended.not_undone
            if self._ended_by is not None or night.not_undone:
                return
            if attempt == 0:
                because = _suspect(tonight.entries[0], night.earlier[tonight.name], self.policy)
            if not because:
                return

    async def _one_run(self, prepared: Prepared, tonight: Tonight, night: Night) -> Ended | None:
        """What the run left; None where it could not begin, and ``tonight`` says why."""
        self._stop = Stop(SystemClock())
        options = Options(
            self.runs_dir, self.command, self.metrics, self._stop, self.history_path, self.session
        )
        try:
            with self.view(prepared) as view:
                return await prepared.execute(options, view)
        except ChaosflowError as e:
            tonight.refused, tonight.refused_code = str(e), int(e.exit_code)
            if e.exit_code is ExitCode.NOT_UNDONE:
                night.not_undone.append(e.remedy)
            return None
        except Exception as e:  # a bug that one scenario meets may not cost the others
            tonight.refused, tonight.refused_code = f"{type(e).__name__}: {e}", int(ExitCode.ERROR)
            return None
        finally:
            self._stop = None
            gc.unfreeze()  # each run freezes what it finds; what the last one left may go


def _new_session() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-nightly-{secrets.token_hex(2)}"


def _report_path(ended: Ended, runs_dir: Path) -> str:
    """From the nightly's own folder."""
    if "report" not in ended.reports:
        return ""
    return os.path.relpath(ended.folder / ended.reports["report"], runs_dir / "x")


def _suspect(entry: Entry, earlier: Sequence[Entry], policy: Policy) -> str:
    """Why a run is worth repeating, in words; empty = it is not."""
    if not entry.counts or entry.state == "fail":
        return f"it was {entry.state}"
    points = points_of(split_series(earlier, entry.series), policy.metrics)
    for key, value in entry.values.items():
        before = points.get(key, [])
        if suspicious(before, value.value, key[1], policy.min_effect):
            usual = sorted(p.value for p in before)[len(before) // 2]
            what = f"{METRICS[key[1]].label} in {key[0]}"
            return f"{what} was {shown(key[1], value.value)}, usually {shown(key[1], usual)}"
    return ""


@contextmanager
def _only_one() -> Iterator[None]:
    """Hold the machine's nightly lock. Raises UsageError where another one does."""
    path = state_dir().parent / f"{state_dir().name}-{LOCK_FILE}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as e:
        raise UsageError(f"lock {path}", f"cannot be opened ({e.strerror})", "make it your own") from e
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise UsageError(
                "nightly",
                f"another one runs on this machine (pid {holder or 'unknown'})",
                "two would disturb each other; wait for its end",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            os.close(handle)
