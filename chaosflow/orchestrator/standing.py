"""A target that stands while somebody else's code runs, with faults at hand and no timeline.

Journal, watchdog, verification and undo are those of a run: whatever ends this process, nothing stays behind.
Every coroutine of one object belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from chaosflow.core.clock import SystemClock
from chaosflow.core.errors import (
    CapabilityError,
    MeasurementError,
    Problem,
    ScenarioError,
    UndoError,
    UsageError,
)
from chaosflow.core.fault import FaultAtom
from chaosflow.core.host import TargetHandle
from chaosflow.core.registry import Registry
from chaosflow.core.scenario import LoadPlan, Phases, Scenario, Sla, TargetSpec
from chaosflow.core.segments import Mark
from chaosflow.orchestrator.claims import claim, claims_of, release
from chaosflow.orchestrator.guards import target_issues
from chaosflow.orchestrator.heal import heal_first
from chaosflow.orchestrator.http import get
from chaosflow.orchestrator.injector import FaultRecord, Injector
from chaosflow.orchestrator.plan import ask
from chaosflow.orchestrator.rundir import Redactor, RunDir, hand_over, new_run_id
from chaosflow.orchestrator.stage import Stage
from chaosflow.orchestrator.target import IncludedEngine
from chaosflow.orchestrator.timeline import clash

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a test's own client reaches the target."""

    url: str
    """Through the fault proxy where that is possible; ends in ``/v1``."""
    direct_url: str
    """Past the proxy: what faults in the path do not touch."""
    model: str


class Standing:
    """One target, started or found, with a fault proxy in front of it. ``up`` first, ``down`` in every case."""

    def __init__(self, spec: TargetSpec, atoms: Registry[FaultAtom], runs_dir: Path, tell: Tell) -> None:
        self.spec, self.runs_dir, self.atoms = spec, runs_dir, atoms
        self.clock = SystemClock()
        self.run_id = new_run_id("standing")
        self.secrets = frozenset({spec.api_key} if spec.api_key else ())
        self.scenario = Scenario(
            name="standing",
            target=spec,
            load=LoadPlan.model_validate({"arrival": {"kind": "constant", "rate_per_s": 1}}),
            phases=Phases(warmup=0.0, baseline=1.0, recovery=0.0),
            probes=[],
            sla=Sla(objectives=["error_rate <= 100%"]),
        )
        self._tell = tell
        self.active: list[FaultRecord] = []
        """Faults that act now, the oldest first."""
        self.listeners: list[Callable[[Mark], None]] = []
        """Told every mark at the moment it is made."""
        self.broken = ""
        """Why nothing more can be done with it."""
        self.stage: Stage
        self._injector: Injector

    async def up(self) -> None:
        """Heal, start the target (or wait for the user's), watchdog and proxy. Raises ChaosflowError."""
        if issues := target_issues(self.spec):
            raise ScenarioError([Problem("target", 0, 0, i.message, i.remedy) for i in issues])
        await heal_first(self.atoms, self._tell)
        self._dir = RunDir.create(self.runs_dir, self.run_id, Redactor(self.secrets), self._tell)
        self.stage = Stage(
            self.scenario, self.run_id, self._dir.path, self._dir.logs,
            lambda what, text: self._tell(f"{what}: {text}"), self.secrets, isolate=False,
        )  # fmt: skip
        try:
            await self.stage.up(
                need_proxy=True, claims={}, on_batch=None, on_lost=self._on_broken,
                on_dead_watchdog=lambda: self._on_broken("the watchdog died, and without it no fault is safe"),
            )  # fmt: skip
        except BaseException:
            await self.down()
            raise
        self._injector = Injector(self.stage.journal, self.atoms, self.clock, self._announce)

    def _on_broken(self, text: str) -> None:
        self.broken = self.broken or text
        self._tell(text)

    def _announce(self, mark: Mark) -> None:
        for listener in list(self.listeners):
            listener(mark)

    @property
    def handle(self) -> TargetHandle:
        """The target as it is now; it follows restarts."""
        return self.stage.target.handle()

    def address(self) -> Address:
        """Where to send requests. A TLS target is reached directly: its certificate names no proxy."""
        handle, proxy = self.handle, self.stage.proxy_address
        parts = urlsplit(handle.url)
        if proxy is None or parts.scheme == "https":
            return Address(handle.url, handle.url, handle.model)
        through = parts._replace(netloc=f"{proxy[0]}:{proxy[1]}").geturl()
        return Address(through, handle.url, handle.model)

    async def settle(self) -> None:
        """Wait until the target answers, whatever was done to it before; its restarts are counted anew.

        Raises MeasurementError where it does not within ``target.ready_timeout``.
        """
        self.require_sound()
        if isinstance(self.stage.target, IncludedEngine):
            self.stage.target.restarts = 0
        give_up_ns = self.clock.now_ns() + int(self.spec.ready_timeout * 1e9)
        while not (await self._answers() and self._known_alive()):
            if self.clock.now_ns() > give_up_ns:
                self._on_broken(f"{self.handle.url} does not answer within {self.spec.ready_timeout:g} s")
                self.require_sound()
            await asyncio.sleep(0.05)

    async def _answers(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            status, _ = await get(self.handle.url + "/models", api_key=self.spec.api_key)
            return status < 500
        return False

    def _known_alive(self) -> bool:
        """Whether whoever answers is whom the handle names: a restarted engine answers a moment sooner."""
        processes = self.handle.processes
        return not processes or any(ref.alive() for ref in processes)

    def require_sound(self) -> None:
        """Raise MeasurementError when part of the set-up is gone."""
        if self.broken:
            raise MeasurementError("chaos target", self.broken, "look into its log, start the suite again")

    # -- faults
    async def inject(self, name: str, atom: FaultAtom) -> FaultRecord:
        """Check, write down how to undo it, inject, verify. What does not show is undone again.

        Raises CapabilityError (cannot work here, or collides; nothing was touched) or MeasurementError
        (not confirmed), UndoError (not confirmed, and still in place).
        """
        self.require_sound()
        host = self.stage.host()
        capability = ask(atom, host)
        if not capability.ok:
            raise CapabilityError(f"fault {name} ({atom.kind})", capability.reason, capability.remedy)
        for other in self.active:
            if shared := clash(atom, other.atom, host):
                raise UsageError(
                    f"fault {name} ({atom.kind})", f"{other.name} already acts on {', '.join(shared)}",
                    f"end {other.name} first",
                )  # fmt: skip
        self._claim([*self.active_atoms(), (name, atom)])
        record = FaultRecord(name, atom, self.clock.now_ns(), None, capability)
        try:
            await self._injector.prepare(record, host)
        except Exception as e:
            self._claim(self.active_atoms())
            raise MeasurementError(f"fault {name}", f"could not be planned: {type(e).__name__}: {e}") from e
        self.active.append(record)
        await self._injector.inject(record)
        if record.reverted:  # nothing to put back
            self._forget(record)
        if not record.confirmed:
            why = record.error
            await self.revert(record)
            raise MeasurementError(f"fault {name} ({atom.kind})", f"was not confirmed: {why}")
        return record

    def active_atoms(self) -> list[tuple[str, FaultAtom]]:
        return [(record.name, record.atom) for record in self.active]

    def _claim(self, atoms: Iterable[tuple[str, FaultAtom]]) -> None:
        """Write down what is acted on. Raises CapabilityError, with the old claims kept."""
        folder, host = self.stage.journal.folder, self.stage.host()
        release(folder)
        try:
            claim(folder, claims_of(dict(atoms), host))
        except CapabilityError:
            release(folder)
            claim(folder, claims_of(dict(self.active_atoms()), host))
            raise

    async def look_again(self, record: FaultRecord) -> None:
        """See whether the effect is still there. Raises MeasurementError where it was lost, or met nothing."""
        if record.reverted or not record.confirmed:
            return
        await self._injector.look_again(record)
        if not record.confirmed:
            raise MeasurementError(f"fault {record.name} ({record.atom.kind})", record.error)

    async def revert(self, record: FaultRecord) -> None:
        """Put back the prior state, and see that it is back; safe to call twice. Raises UndoError."""
        await self._injector.revert(record)
        if record.undo_failed:
            manual = record.undo.manual if record.undo else ""
            raise UndoError(f"fault {record.name} ({record.atom.kind})", record.error, f"by hand: {manual}")
        self._forget(record)

    def _forget(self, record: FaultRecord) -> None:
        if record in self.active:
            self.active.remove(record)
        if not self.active:
            release(self.stage.journal.folder)

    async def revert_all(self) -> None:
        """Undo whatever still acts, the newest first; goes on after a failure. Raises UndoError."""
        failures: list[UndoError] = []
        for record in self.active[::-1]:
            try:
                await self.revert(record)
            except UndoError as e:
                failures.append(e)
        if failures:
            raise failures[0]

    async def down(self) -> None:
        """Undo everything, end every helper. Logs stay only where something went wrong. Raises UndoError."""
        stage = self.stage
        if hasattr(self, "_injector"):
            await self._injector.revert_all()
            await stage.down(self._injector.revert_all)
        else:
            await stage.down(_nothing)
        self._dir.close()
        manual = [*stage.not_undone, *(r.undo.manual for r in self.active if r.undo and not r.reverted)]
        if manual or self.broken:
            hand_over(self._dir.path)
        else:
            shutil.rmtree(self._dir.path, ignore_errors=True)
        if manual:
            raise UndoError("chaos target", "what was done to it could not be undone", "; ".join(manual))


async def _nothing() -> None:
    return
