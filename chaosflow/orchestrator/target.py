"""The service under test: start the included engine, or find the user's server; wait until it is healthy."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from chaosflow.core.clock import SystemClock
from chaosflow.core.errors import CapabilityError, ChaosflowError, MeasurementError, UsageError
from chaosflow.core.fault import Capability
from chaosflow.core.host import ProcessRef, TargetHandle
from chaosflow.core.scenario import EngineSpec, ProcessSpec, TargetSpec
from chaosflow.linux import cgroup, finding
from chaosflow.orchestrator.children import Child, Place, start_child
from chaosflow.orchestrator.http import get

Say = Callable[[str, str], None]
"""Tells the run's log: (what, text)."""


class Target(Protocol):
    """What the run needs of a target. ``handle`` is current: it follows restarts."""

    def handle(self) -> TargetHandle: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def handle_before_start(spec: TargetSpec, vgpu_state: Path | None) -> TargetHandle:
    """The target as far as it is known while nothing has been started; for ``check``. Reads only."""
    if spec.engine is not None:
        return TargetHandle(True, "http://127.0.0.1:0/v1", spec.engine.model, vgpu_state=vgpu_state)
    handle = TargetHandle(False, spec.url or "", spec.model or "", health=spec.health or "/health")
    if spec.process is None:
        return handle
    try:
        return _with_processes(handle, spec.process)
    except CapabilityError:  # not there yet: a scenario can be looked at without its server
        return replace(handle, selector="not found yet")


class IncludedEngine:
    """``chaosflow serve`` as a helper of this run, restarted by policy when it dies."""

    def __init__(
        self, spec: TargetSpec, place: Place, cgroups: Sequence[Path], state: Path, seed: int, say: Say
    ) -> None:
        assert spec.engine is not None
        self._spec: EngineSpec = spec.engine
        self._model = spec.model or spec.engine.model
        self._ready_timeout_s = spec.ready_timeout
        self._place, self._cgroups, self._say, self._seed = place, list(cgroups), say, seed
        self._control, self._vgpu = state / "engine.sock", state / "vgpu.state"
        self._child: Child | None = None
        self._handle: TargetHandle | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self.restarts = 0

    def handle(self) -> TargetHandle:
        assert self._handle is not None, "the engine has not been started"
        return self._handle

    async def start(self) -> None:
        await self._launch(self._spec.port)
        self._supervisor = asyncio.create_task(self._supervise())

    async def _launch(self, port: int) -> None:
        spec = self._spec
        self._control.unlink(missing_ok=True)
        command = [
            sys.executable, "-P", "-m", "chaosflow.engine", "--backend", spec.backend, "--gpu", spec.gpu,
            "--model", spec.model, "--served-model-name", self._model, "--max-batch", str(spec.max_batch),
            "--port", str(port), "--seed", str(self._seed),
            "--control-socket", str(self._control), "--vgpu-state", str(self._vgpu),
        ]  # fmt: skip
        try:
            self._child = await start_child(
                self._place, "engine", command, cgroups=self._cgroups, ready_timeout_s=self._ready_timeout_s
            )
        except ChaosflowError as e:
            raise UsageError("target.engine", f"does not start: {e.cause}", e.remedy) from e
        ref = ProcessRef.of(self._child.pid)
        self._handle = TargetHandle(
            included=True,
            url=self._child.ready["listening"] + "/v1",
            model=self._child.ready["model"],
            processes=(ref,) if ref else (),
            cgroups=cgroup.cgroups_of(self._child.pid) if self._cgroups else {},
            vgpu_state=self._vgpu,
            control=self._control,
            selector="the included engine",
        )

    async def _supervise(self) -> None:
        """Restart the engine when it dies, with a delay that doubles up to 30 s."""
        policy = self._spec.restart
        while self._child is not None:
            code = await self._child.process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if policy.policy == "never" or self.restarts >= policy.max_restarts:
                self._say("engine", f"died ({how}) and is not restarted (policy {policy.policy})")
                return
            delay_s = min(30.0, policy.delay * 2**self.restarts)
            self.restarts += 1
            self._say("engine", f"died ({how}); restart {self.restarts} in {delay_s:g} s")
            await asyncio.sleep(delay_s)
            try:
                await self._launch(urlsplit(self.handle().url).port or 0)
            except ChaosflowError as e:
                self._say("engine", f"cannot be restarted: {e}")
            else:
                self._say("engine", f"is up again (pid {self._child.pid})")

    async def stop(self) -> None:
        if self._supervisor:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        if self._child:
            await self._child.stop()


class UserServer:
    """A server that somebody else started and that stays when the run is over."""

    def __init__(self, spec: TargetSpec, unix_socket: str | None = None) -> None:
        """``unix_socket``: it is asked there, as the load is sent there (``load.unix_socket``)."""
        self._spec, self._socket = spec, Path(unix_socket) if unix_socket else None
        self._handle: TargetHandle | None = None

    def handle(self) -> TargetHandle:
        assert self._handle is not None, "the target has not been looked at"
        spec = self._spec.process
        if spec is not None and not any(ref.alive() for ref in self._handle.processes):
            # somebody has restarted it: a port, a pid file, a container or a cgroup leads to the new one
            with contextlib.suppress(CapabilityError):
                self._handle = _with_processes(self._handle, spec)
        return self._handle

    async def start(self) -> None:
        """Wait until it is healthy; find its model and its processes. Changes nothing."""
        spec = self._spec
        assert spec.url is not None
        url = spec.url.rstrip("/")
        health = await _until_healthy(spec, url, self._socket)
        model = spec.model or await _first_model(spec, url, self._socket)
        handle = TargetHandle(False, url, model, health=health)
        self._handle = _with_processes(handle, spec.process) if spec.process else handle

    async def stop(self) -> None:
        return


async def _until_healthy(spec: TargetSpec, url: str, unix_socket: Path | None) -> str:
    """Wait for a good answer; returns the path of the health check that gave it."""
    root = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    paths = [root + spec.health] if spec.health else [root + "/health", url + "/models"]
    clock, last = SystemClock(), "no answer"
    deadline_ns = clock.now_ns() + int(spec.ready_timeout * 1e9)
    while True:
        for path in paths:
            try:
                status, _ = await get(path, control=unix_socket, api_key=spec.api_key)
            except (OSError, http.client.HTTPException) as e:
                last = f"{path}: {str(e) or type(e).__name__}"
                continue
            if status < 300:
                return path.removeprefix(root)
            last = f"{path}: status {status}" + (", a redirect, is not followed" if status < 400 else "")
        if clock.now_ns() > deadline_ns:
            after = f" after {spec.ready_timeout:g} s" if spec.ready_timeout else ""
            raise MeasurementError(
                f"target {url}", f"not healthy{after} ({last})",
                "start it first, or set target.health or target.ready_timeout"
                + ("; SSL_CERT_FILE names a certificate of your own" if "CERTIFICATE" in last else ""),
            )  # fmt: skip
        await asyncio.sleep(0.2)


async def ask_once(spec: TargetSpec, unix_socket: str | None = None) -> Capability:
    """Whether the user's server answers now, and with which model; for the doctor. Two GETs, waits for nothing."""
    url, there = (spec.url or "").rstrip("/"), Path(unix_socket) if unix_socket else None
    try:
        health = await _until_healthy(spec.model_copy(update={"ready_timeout": 0.0}), url, there)
        model = spec.model or await _first_model(spec, url, there)
    except MeasurementError as e:
        return Capability.no(e.cause, e.remedy)
    return Capability.yes(f"{health} answers; model {model}")


async def _first_model(spec: TargetSpec, url: str, unix_socket: Path | None) -> str:
    try:
        status, body = await get(url + "/models", control=unix_socket, api_key=spec.api_key)
        if status < 400:
            return str(json.loads(body)["data"][0]["id"])
        cause = f"{url}/models answers with status {status}"
    except (OSError, http.client.HTTPException) as e:
        cause = f"{url}/models: {str(e) or type(e).__name__}"
    except (ValueError, LookupError, TypeError):
        cause = f"{url}/models lists no model"
    remedy = "check the path in target.url (mostly /v1) and the key, or name a model with target.model"
    raise MeasurementError(f"target {url}", cause, remedy)


def _with_processes(handle: TargetHandle, spec: ProcessSpec) -> TargetHandle:
    found, selector = finding.find(spec)
    return TargetHandle(
        included=handle.included,
        url=handle.url,
        model=handle.model,
        health=handle.health,
        processes=tuple(found),
        cgroups=cgroup.cgroups_of(found[0].pid) if found else {},
        selector=selector,
    )
