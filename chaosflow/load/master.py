"""The load's master: a headless Locust master between the orchestrator's socket and the workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import gevent
import orjson
from gevent.event import Event
from gevent.lock import RLock
from locust import User
from locust.env import Environment
from locust.runners import STATE_MISSING

from chaosflow.core.listening import listen_address, require_free
from chaosflow.core.loadlink import LoadOrder
from chaosflow.load import messages as m
from chaosflow.load import webpage
from chaosflow.load.portable import portable

_STARTUP_S = 30.0
_WATCH_S = 0.1
_SILENT_S = 4.0
"""A worker pings twice a second; one that is silent for so long is lost."""
_FINAL_S = 15.0
"""After the drain, how long to wait for the final batches."""
_NEVER_S = float("inf")


_OPTIONS = Namespace(
    enable_rebalancing=False,
    **dict.fromkeys(("num_users", "spawn_rate", "run_time", "stats_history_enabled", "web_login")),
)
"""What Locust's runner and its web page look up."""


class Dispatcher(User):
    """Stands for the workers' dispatcher: Locust places users by class name, one on each worker."""

    def carry_on(self) -> None:
        raise NotImplementedError("a master runs no users")

    tasks = [carry_on]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Forked:
    """A worker on this machine, that waits for our (address, port)."""

    process: BaseProcess
    address: Connection


@dataclass(slots=True)
class _Worker:
    number: int
    process: BaseProcess | None
    """None: on another machine."""
    client_id: str = ""
    connected: bool = False
    """Has its order, and waits."""
    up: bool = False
    done: bool = False
    lost: bool = False
    seq: int = 0
    heard_s: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        return self.done or self.lost


class Master:
    """Relays control to the workers and cells back; watches that none is lost unnoticed."""

    def __init__(self, order: LoadOrder, forked: Sequence[Forked], link: socket.socket) -> None:
        self._order, self._link, self._lock = order, link, RLock()
        plan = order.plan
        self._workers = [_Worker(n, worker.process) for n, worker in enumerate(forked)]
        self._workers += [_Worker(n, None) for n in range(len(forked), plan.all_workers)]
        self._all_up, self._finished = Event(), Event()
        self._running = False
        self._give_up_s = _NEVER_S
        Dispatcher.fixed_count = len(self._workers)
        environment = Environment(user_classes=[Dispatcher], parsed_options=_OPTIONS, stop_timeout=0)
        host, port = listen_address(plan.listen) if plan.listen else ("127.0.0.1", 0)
        for where, needed in ((host, port), (webpage.HOST, plan.web_ui_port)):
            if needed:  # Locust's own words would be a stack trace in a log, and a run without its page
                require_free(where, needed, "load: cannot listen on")
        self._runner: Any = environment.create_master_runner(host, port)
        near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        for worker in forked:
            with contextlib.suppress(BrokenPipeError):  # dead already: ``_watch`` says so
                worker.address.send((near, self._runner.server.port))
        if plan.web_ui_port is not None:
            webpage.show_page(environment, plan.web_ui_port)
        listeners: dict[str, Callable[[_Worker, dict[str, Any]], None]] = {
            m.UP: self._on_up,
            m.CELLS: self._on_cells,
            m.NOTE: lambda worker, data: self._say({"type": "note", "text": data["text"]}),
            m.DONE: self._on_done,
        }
        self._runner.register_message(m.CONNECTED, self._on_connected)
        self._runner.register_message(m.FAILED, self._on_failed)
        self._runner.register_message(m.JOIN, self._on_join)
        self._runner.register_message(m.PING, self._on_ping)
        for name, listener in listeners.items():
            self._runner.register_message(name, self._heard(listener))

    def run(self) -> int:
        """The whole life of the load; returns the exit code. The workers are dead when it returns."""
        gevent.signal_handler(signal.SIGTERM, self._terminate)
        gevent.spawn(self._watch)
        gevent.spawn(self._listen)
        try:
            if not self._bring_up():
                return 1
            self._say({"type": "ready", "workers": sum(w.up for w in self._workers)})
            self._finished.wait()
            self._say({"type": "bye"})
            return 0
        except OSError:
            return 1  # the orchestrator is gone
        finally:
            self.kill_workers()

    def _bring_up(self) -> bool:
        """Place one dispatcher on each worker and wait for all of them; False when there are none."""
        deadline_s = time.monotonic() + _STARTUP_S
        while any(not w.connected and not w.over for w in self._workers):
            if time.monotonic() > deadline_s:
                self._lose([w for w in self._workers if not w.connected], "did not join within 30 s")
            gevent.sleep(0.005)
        users = len(self._runner.clients)
        if users:
            gevent.spawn(self._runner.start, users, users)
            self._all_up.wait(max(0.1, deadline_s - time.monotonic()))
        self._lose([w for w in self._workers if not w.up], "its dispatcher did not start")
        for worker in self._workers:
            worker.heard_s = time.monotonic()
        return any(w.up for w in self._workers)

    # -- workers
    def _heard(self, listener: Callable[[_Worker, dict[str, Any]], None]) -> Callable[..., None]:
        def on_message(environment: Any, msg: Any, **_: Any) -> None:
            for worker in self._workers:
                if worker.client_id == msg.node_id and not worker.lost:
                    worker.heard_s = time.monotonic()
                    listener(worker, msg.data)

        return on_message

    def _on_ping(self, environment: Any, msg: Any, **_: Any) -> None:
        answer = {"sent_ns": msg.data["sent_ns"], "at_ns": time.monotonic_ns()}
        self._runner.send_message(m.PONG, answer, client_id=msg.node_id)
        for worker in self._workers:
            if worker.client_id == msg.node_id:
                worker.heard_s = time.monotonic()

    def _on_join(self, environment: Any, msg: Any, **_: Any) -> None:
        """A worker from another machine: give it the order, or send it away."""
        free = [w for w in self._workers if w.process is None and not w.client_id and not w.over]
        if not free:
            text = "this run takes no (more) workers from other machines: see load.remote_workers"
            self._runner.send_message(m.QUIT, {"reason": text}, client_id=msg.node_id)
            return
        worker = free[0]
        worker.client_id, worker.heard_s = msg.node_id, time.monotonic()
        order = portable(self._order)
        self._runner.send_message(m.ORDER, {"order": order, "number": worker.number}, client_id=msg.node_id)
        offset, error = msg.data["clock_offset_s"], msg.data["clock_offset_error_s"]
        text = f"worker {worker.number} is {msg.data['host']}; clocks differ by {offset:.6f} ± {error:.6f} s"
        self._say({"type": "note", "text": text})

    def _on_connected(self, environment: Any, msg: Any, **_: Any) -> None:
        worker = self._workers[msg.data["number"]]
        worker.client_id, worker.connected = msg.node_id, True

    def _on_failed(self, environment: Any, msg: Any, **_: Any) -> None:
        """It says itself why it ends, which its exit code would not."""
        worker = self._workers[msg.data["number"]]
        worker.client_id = ""  # it ends by itself
        self._lose([worker], msg.data["reason"])

    def _on_up(self, worker: _Worker, data: dict[str, Any]) -> None:
        worker.up = True
        if all(w.up or w.over for w in self._workers):
            self._all_up.set()

    def _on_cells(self, worker: _Worker, data: dict[str, Any]) -> None:
        if data["seq"] == worker.seq + 1:  # a repeat is only confirmed again
            worker.seq = data["seq"]
            self._write(b'{"type":"cells","batch":%s}\n' % data["batch"])
        self._runner.send_message(m.ACK, {"seq": worker.seq}, client_id=worker.client_id)

    def _on_done(self, worker: _Worker, data: dict[str, Any]) -> None:
        if self._give_up_s == _NEVER_S:  # nobody told it to
            self._lose([worker], "ended before the load did (SIGTERM?)")
            return
        worker.done = True
        self._check_finished()

    def _check_finished(self) -> None:
        if all(w.over for w in self._workers):
            self._all_up.set()
            self._finished.set()

    def _watch(self) -> None:
        """Notice a worker that died, hangs, or never comes to its end."""
        now_s = time.monotonic()
        while True:
            begun_s = now_s
            gevent.sleep(_WATCH_S)
            now_s = time.monotonic()
            if now_s - begun_s > 1.0:  # it was us who stood still: what they sent is yet to be read
                for worker in self._workers:
                    worker.heard_s = now_s
            for worker in [w for w in self._workers if not w.over]:
                code = worker.process.exitcode if worker.process is not None else None
                if code is not None:
                    gevent.sleep(_WATCH_S)  # its last words may be on their way
                    how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                    self._lose([worker], how)
                elif self._running and now_s - worker.heard_s > _SILENT_S:
                    self._lose([worker], f"silent for {_SILENT_S:g} s")
                elif worker.client_id and self._is_missing(worker.client_id):
                    self._lose([worker], "does not answer Locust's heartbeat")
            if now_s > self._give_up_s:
                self._lose([w for w in self._workers if not w.over], "sent no final batch")

    def _is_missing(self, client_id: str) -> bool:
        node = self._runner.clients.get(client_id)
        return node is not None and node.state == STATE_MISSING

    def _lose(self, workers: Sequence[_Worker], reason: str) -> None:
        for worker in workers:
            if worker.over:
                continue
            worker.lost = True
            if worker.process is not None:
                worker.process.kill()
            else:
                self._dismiss(worker, f"taken for lost: {reason}")
            self._say({"type": "lost", "worker": str(worker.number), "reason": reason})
        self._check_finished()

    def kill_workers(self) -> None:
        """Kill and reap whatever is left of them."""
        for worker in self._workers:
            if worker.process is None:
                if not worker.over:
                    self._dismiss(worker, "the run is over")
                continue
            if worker.done:
                with gevent.Timeout(1.0, False):
                    while worker.process.exitcode is None:
                        gevent.sleep(0.01)
            worker.process.kill()
            worker.process.join()

    # -- orchestrator
    def _listen(self) -> None:
        tail = b""
        try:
            while data := self._link.recv(65536):
                *lines, tail = (tail + data).split(b"\n")
                for line in lines:
                    self._obey(orjson.loads(line))
        except OSError:
            pass
        if self._finished.is_set():
            return  # all is told, and ``run`` is ending
        # the orchestrator is gone: nobody will stop us
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
            else:
                self._dismiss(worker, "the run is gone")
        gevent.sleep(0.05)  # zmq sends in a thread of its own
        os._exit(1)

    def _obey(self, message: dict[str, Any]) -> None:
        kind = message.pop("type")
        if kind == "start":
            self._running = True
        elif kind == "stop":
            drained_s = (message["at_ns"] - time.monotonic_ns()) / 1e9 + message["drain_s"]
            self._give_up_s = min(self._give_up_s, time.monotonic() + max(0.0, drained_s) + _FINAL_S)
        self._send_to_workers(f"chaosflow_{kind}", message)

    def _terminate(self) -> None:
        self._give_up_s = min(self._give_up_s, time.monotonic() + _FINAL_S)
        self._send_to_workers(m.STOP, {"at_ns": 0, "drain_s": 0.0})

    def _send_to_workers(self, name: str, data: dict[str, Any]) -> None:
        for worker in self._workers:
            if worker.client_id and not worker.over:
                self._runner.send_message(name, data, client_id=worker.client_id)

    def _dismiss(self, worker: _Worker, reason: str) -> None:
        if worker.client_id:
            self._runner.send_message(m.QUIT, {"reason": reason}, client_id=worker.client_id)

    def _say(self, message: dict[str, Any]) -> None:
        self._write(orjson.dumps(message) + b"\n")

    def _write(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # nobody to tell: ``_listen`` ends this process
            self._link.sendall(line)
