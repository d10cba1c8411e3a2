"""The engine as a process: sockets, signals, start and stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from chaosflow.core.errors import UsageError
from chaosflow.engine.core import Engine
from chaosflow.engine.dispatch.app import Service, build_app
from chaosflow.engine.dispatch.ask import Limits
from chaosflow.engine.infer.models import model_named
from chaosflow.engine.infer.sim import SimBackend
from chaosflow.engine.schedule.blocks import BLOCK_TOKENS
from chaosflow.gpu.specs import gpu_named
from chaosflow.gpu.state import VirtualGpuState

DRAIN_S = 30
BACKLOG = 4096
ACCEPT_AT_ONCE = 64
"""asyncio accepts as often as its backlog says before it looks at anything else, and does not stop where
descriptors run out (EMFILE): 4,096 tracebacks in a row would hold up every stream for seconds."""
SEND_BUFFER_BYTES = 64 << 10
"""Of each connection: without a bound the kernel takes 4 MB, 20,000 tokens, before a lag is felt."""
_log = logging.getLogger("chaosflow.engine")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The command line, typed."""

    backend: str = "sim"
    gpu: str = "h200"
    model: str = "llama-3.1-8b"
    host: str = "127.0.0.1"
    port: int = 0
    max_batch: int = 64
    seed: int = 0
    vgpu_state: Path | None = None
    control_socket: Path | None = None
    served_model_name: str = ""


class _Server(uvicorn.Server):
    """Signals by the loop: SIGTERM drains, SIGINT stops at once, and neither is raised again."""

    def __init__(self, config: uvicorn.Config, on_drain: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_drain = on_drain
        self.interrupted = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            loop.remove_signal_handler(signal.SIGINT)

    def _drain(self) -> None:
        self._on_drain()
        self.should_exit = True

    def _interrupt(self) -> None:
        self.interrupted = self.should_exit = self.force_exit = True


def serve(options: ServeOptions) -> int:
    """Serve until a signal ends it: 0 after SIGTERM, 130 after SIGINT, 6 when the step loop broke.

    Raises UsageError (unknown names, a port in use) before anything is served.
    """
    gpu, model = gpu_named(options.gpu), model_named(options.model)
    with _listening(options) as sockets:
        state = (
            VirtualGpuState.anonymous(gpu)
            if options.vgpu_state is None
            else VirtualGpuState.create(options.vgpu_state, gpu)
        )
        return asyncio.run(_serve(options, sockets, lambda: SimBackend(state, model)))


async def _serve(
    options: ServeOptions, sockets: list[socket.socket], make_backend: Callable[[], SimBackend]
) -> int:
    asyncio.get_running_loop().set_exception_handler(_accept_errors_in_short())
    backend = make_backend()
    if backend.kv_blocks < 64:
        backend.close()
        raise UsageError(f"model {options.model}", f"does not fit on one {options.gpu}", "name a larger GPU")
    engine = Engine(backend, max_batch=options.max_batch)
    context = min(backend.context_tokens, backend.kv_blocks * BLOCK_TOKENS)
    limits = Limits(options.served_model_name or options.model, context, options.seed)
    service = Service(engine, limits, backend.state)
    stepping = asyncio.create_task(engine.run())

    def drain() -> None:
        service.draining = True

    server = _Server(_config(service), drain)
    stepping.add_done_callback(lambda task: _note_failure(task, service, server))
    announcing = asyncio.create_task(_announce(server, options, sockets, limits.model))
    try:
        await server.serve(sockets=sockets)
    finally:
        for task in (announcing, stepping):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        backend.close()
    return 130 if server.interrupted else 6 if service.failure else 0


def _accept_errors_in_short() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An exception handler: a line a second where descriptors run out, asyncio's own for all else."""
    said_at_s = -1.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal said_at_s
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(context)
        elif loop.time() - said_at_s >= 1:
            said_at_s = loop.time()
            _log.error("%s: %s", context.get("message"), error.strerror)

    return handle


def _note_failure(task: asyncio.Task[None], service: Service, server: uvicorn.Server) -> None:
    """Without steps no stream would ever end: close them all and leave."""
    if not task.cancelled() and (error := task.exception()) is not None:
        service.failure = f"the step loop ended: {error!r}"
        _log.error(service.failure, exc_info=error)
        server.should_exit = server.force_exit = True


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        build_app(service),
        http="httptools",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPT_AT_ONCE,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN_S,
    )


async def _announce(
    server: uvicorn.Server, options: ServeOptions, sockets: list[socket.socket], model: str
) -> None:
    while not server.started:
        await asyncio.sleep(0.002)
    for listener in sockets:
        listener.listen(BACKLOG)  # so many may wait in the kernel all the same
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{host}:{sockets[0].getsockname()[1]}"
    sys.stdout.write(orjson.dumps({"listening": url, "pid": os.getpid(), "model": model}).decode() + "\n")
    sys.stdout.flush()


@contextmanager
def _listening(options: ServeOptions) -> Iterator[list[socket.socket]]:
    """The bound sockets, TCP first; closed, and the Unix one removed, at the end."""
    sockets = [_tcp(options.host, options.port)]
    try:
        if options.control_socket is not None:
            sockets.append(_unix(options.control_socket))
        yield sockets
    finally:
        for listener in sockets:
            listener.close()
        if options.control_socket is not None and len(sockets) > 1:
            options.control_socket.unlink(missing_ok=True)


def _tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol must be named: asyncio sets TCP_NODELAY only where it reads IPPROTO_TCP, and without
    # it a delayed ACK of 40 ms stands between the role chunk and the first token
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # here and not later: two may bind one port, but only one can listen
    except OSError as e:
        listener.close()
        remedy = "stop what listens there, or give --port 0 for any free port"
        raise UsageError(f"{host}:{port}", f"cannot listen ({e.strerror})", remedy) from e
    return listener


def _unix(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and listener.connect_ex(str(path)) != 0:
            path.unlink()  # left by a killed engine: nobody answers
            listener.close()
            listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError as e:
        listener.close()
        raise UsageError(
            f"control socket {path}", f"cannot listen ({e.strerror or e})", "name another"
        ) from e
    return listener
