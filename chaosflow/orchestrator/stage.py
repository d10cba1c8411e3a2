"""What stands while a run goes on: journal, watchdog, namespace, cgroup, target, proxy, load. Taken down in reverse."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.host import Host, ProxyHandle
from chaosflow.core.journal import Journal, folder_of
from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.scenario import Scenario
from chaosflow.core.slots import CellBatch
from chaosflow.linux import cgroup
from chaosflow.linux.netns import new_network_namespace
from chaosflow.orchestrator.children import MEASURING_NICE, Child, Place, start_child
from chaosflow.orchestrator.claims import claim
from chaosflow.orchestrator.loadprocess import LoadProcess
from chaosflow.orchestrator.own import OwnCgroup, OwnHelpers
from chaosflow.orchestrator.target import IncludedEngine, Say, Target, UserServer
from chaosflow.orchestrator.watchlink import WatchLink

ENGINE_PORT, PROXY_PORTS = 8000, (8001, 8002)
"""In a namespace of our own, where nobody else can have them."""


class Stage:
    """Everything that is started for a run. ``up`` may fail half-way: ``down`` takes down what stands."""

    def __init__(
        self,
        scenario: Scenario,
        run_id: str,
        run_dir: Path,
        logs: Path,
        say: Say,
        secrets: Iterable[str],
        *,
        isolate: bool = True,
    ) -> None:
        self._scenario, self._run_id, self._run_dir, self._say = scenario, run_id, run_dir, say
        # in a namespace of its own nobody would find the load's page, or join it
        found_from_outside = scenario.load.listen or scenario.load.web_ui_port
        self._logs, self._isolate = logs, isolate and not found_from_outside
        self._secrets = sorted(secrets)
        self._place = Place(run_id, logs)
        self._cgroup_folders: list[Path] = []
        self.not_undone: list[str] = []
        """Manual commands for what ``down`` could not put back."""
        self._watch = WatchLink(folder_of(run_id), logs / "watchdog.log")
        self._proxy: Child | None = None
        self._proxy_watch: asyncio.Task[None] | None = None
        self._going_down = False
        self._on_lost: Callable[[str], None]
        self._url = ""
        self._connect: tuple[str, int] | None = None
        self.journal: Journal
        self.target: Target
        self.load: LoadProcess

    @property
    def isolated(self) -> bool:
        """Whether target, proxy and load share a network namespace of this run's own."""
        return self._place.netns_fd is not None

    def host(self) -> Host:
        """What an atom may act on now; the target's processes are current after a restart."""
        proxy = ProxyHandle(self._control) if self._proxy else None
        return Host(self._run_id, self.target.handle(), proxy)

    @property
    def _control(self) -> Path:
        return self.journal.folder / "proxy.sock"

    async def up(
        self,
        *,
        need_proxy: bool,
        claims: Mapping[str, str],
        on_batch: Callable[[CellBatch], None] | None,
        on_lost: Callable[[str], None],
        on_dead_watchdog: Callable[[], None],
    ) -> None:
        """Start everything, in parallel where nothing depends on the other. Raises ChaosflowError.

        Without ``on_batch`` no load is started: ``new_load`` makes one whenever it is wanted.
        """
        self._on_lost = on_lost
        await self._watch.spawn()  # before the journal: whenever we are killed, it is watched or not there
        self.journal = Journal.create(self._run_id)
        claim(self.journal.folder, claims)
        self.journal.plan(OwnHelpers.undo(self._run_id))
        if self._scenario.target.engine is not None:
            self._prepare_isolation()
            self.target = self._engine()
            engine_port = self._scenario.target.engine.port
            await _all(
                self._watch.ready(on_dead_watchdog),
                self.target.start(),
                self._start_proxy_and_load(need_proxy, f"http://127.0.0.1:{engine_port}/v1", on_batch),
            )
        else:
            self.target = UserServer(self._scenario.target, self._scenario.load.unix_socket)
            await _all(self._watch.ready(on_dead_watchdog), self.target.start())
            await self._start_proxy_and_load(need_proxy, self.target.handle().url, on_batch)

    def new_load(self, on_batch: Callable[[CellBatch], None], on_lost: Callable[[str], None]) -> LoadProcess:
        """A load process that is not started yet; the newest one is stopped by ``down``."""
        self.load = LoadProcess(
            self._place,
            self.journal.folder,
            on_batch=on_batch,
            on_lost=on_lost,
            on_note=lambda t: self._say("load", t),
        )
        return self.load

    def _prepare_isolation(self) -> None:
        """A network namespace and a cgroup for the engine, where privilege allows; else the host's own."""
        if cgroup.can_create():
            self.journal.plan(OwnCgroup.undo(self._run_id))
            self._cgroup_folders = list(cgroup.create_run_cgroup(self._run_id).values())
        descriptor = new_network_namespace() if self._isolate else None
        self._place = Place(self._run_id, self._logs, descriptor)

    def _engine(self) -> IncludedEngine:
        spec = self._scenario.target
        assert spec.engine
        if spec.engine.port == 0:
            port = ENGINE_PORT if self.isolated else _free_port()
            spec = spec.model_copy(update={"engine": spec.engine.model_copy(update={"port": port})})
            self._scenario = self._scenario.model_copy(update={"target": spec})
        return IncludedEngine(
            spec, self._place, self._cgroup_folders, self.journal.folder, self._scenario.seed, self._say
        )

    async def _start_proxy_and_load(
        self, need_proxy: bool, url: str, on_batch: Callable[[CellBatch], None] | None
    ) -> None:
        self._url = url
        starts: list[Coroutine[Any, Any, None]] = []
        if need_proxy:
            taken = urlsplit(url).port
            port = next(p for p in PROXY_PORTS if p != taken) if self.isolated else _free_port()
            self._connect = ("127.0.0.1", port)
            starts.append(self._start_proxy(url, port))
        if on_batch is not None:
            load = self.new_load(on_batch, self._on_lost)
            order = self.order(self._scenario, self._run_id, self._run_dir / "records")
            starts.append(load.start(order, self._scenario.target.api_key))
        await _all(*starts)

    @property
    def proxy_address(self) -> tuple[str, int] | None:
        """Where the proxy listens; None without one."""
        return self._connect

    async def _start_proxy(self, url: str, port: int) -> None:
        parts = urlsplit(url)
        upstream = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        command = [
            sys.executable, "-P", "-m", "chaosflow.faults.proxy", "--control", str(self._control),
            "--name", "target", "--listen", f"127.0.0.1:{port}", "--upstream", upstream,
        ]  # fmt: skip
        self._proxy = await start_child(
            self._place, "proxy", command, nice=MEASURING_NICE, ready_timeout_s=15.0
        )
        self._proxy_watch = asyncio.create_task(self._watch_proxy(self._proxy))

    async def _watch_proxy(self, proxy: Child) -> None:
        """Without it no request arrives: what fails then is ours and not the target's."""
        code = await proxy.process.wait()
        if not self._going_down:
            self._on_lost(f"the fault proxy died (exit code {code})")

    def order(self, scenario: Scenario, run_id: str, records: Path) -> LoadOrder:
        """What a load on this target is told, with the plan and the objectives of ``scenario``."""
        spec = self._scenario.target
        return LoadOrder(
            run_id=run_id,
            url=self._url,
            connect=self._connect,
            model=spec.model or (spec.engine.model if spec.engine else self.target.handle().model),
            plan=scenario.load,
            seed=scenario.seed,
            objectives=list(scenario.sla.objectives),
            fault_names=[step.name for step in scenario.faults],
            secrets=self._secrets,
            records_dir=str(records),
        )

    async def down(self, look_again: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End every helper, undo what the stage itself made, let the watchdog go. Faults are undone before.

        ``look_again`` is called when the helpers are gone: what could not be undone because one of them
        hung may be undone now.
        """
        self._going_down = True
        stops = [part.stop() for name in ("load", "target", "_proxy") if (part := getattr(self, name, None))]
        await asyncio.gather(*stops, return_exceptions=True)
        if self._proxy_watch:
            await self._proxy_watch
        await look_again()
        if hasattr(self, "journal"):
            await self._undo_own()
            self.journal.close(remove=not self.journal.pending())
        if self._place.netns_fd is not None:
            os.close(self._place.netns_fd)
        await self._watch.dismiss()

    async def _undo_own(self) -> None:
        """Newest first, like everything; a failure is kept for the exit code and hides no other."""
        own: dict[str, type[OwnHelpers | OwnCgroup]] = {who.kind: who for who in (OwnHelpers, OwnCgroup)}
        for entry in self.journal.pending():
            if (who := own.get(entry.undo.kind)) is None:
                continue  # a fault, which the injector has tried
            try:
                await who.revert(entry.undo)
                gone = not await who.is_active(entry.undo)
            except (ChaosflowError, OSError):
                gone = False
            if gone:
                self.journal.reverted(entry.number)
            else:
                self.not_undone.append(entry.undo.manual)


async def _all(*work: Coroutine[Any, Any, None]) -> None:
    """Run together; on the first failure let the others come to an end, then raise it."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
