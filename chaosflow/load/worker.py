"""A load worker: one Locust worker process, with one dispatcher user that runs the session."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import gevent
import locust.runners
import orjson
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.loadlink import API_KEY_VARIABLE, LoadOrder
from chaosflow.core.sample import RequestRecord
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CellBatch
from chaosflow.load import messages as m
from chaosflow.load.clocklink import ClockLink
from chaosflow.load.session import Session

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_NICE = -10
_ACK_TIMEOUT_S = 5.0
_RESEND_AFTER_S = 1.0
_PING_EVERY_S = 0.5
_LAST_WORDS_S = 0.05
"""zmq sends in a thread of its own."""


class Worker:
    """Joins Locust's runner and the session: control messages in, numbered batches out.

    The master's times are put on this machine's clock on their way in, and ours on the master's on their way out.
    """

    def __init__(self, host: str, port: int) -> None:
        self.number = -1
        self._up = False
        self.clock = ClockLink()
        self._order: LoadOrder
        self.session: Session
        self._unacknowledged: dict[int, bytes] = {}
        self._ack = Event()
        self._resent_s = 0.0
        self.environment: Any = Environment(
            user_classes=[_dispatcher_of(self)], parsed_options=Namespace(web_base_path=""), stop_timeout=0
        )
        self.runner: Any = self.environment.create_worker_runner(host, port)
        self._heed = self.runner.handle_message
        setattr(self.runner, "handle_message", self._heed_unless_moved)  # noqa: B010 (a method, for mypy)
        self.runner.register_message(m.PONG, _unwrap(lambda d: self.clock.pong(d["sent_ns"], d["at_ns"])))
        self.runner.register_message(m.QUIT, _unwrap(self._quit))
        gevent.spawn(self._ping_for_ever)

    def _heed_unless_moved(self, message: Any) -> None:
        """Once the dispatcher runs it stays: Locust would move it whenever a worker comes or goes."""
        if message.type != "spawn" or not self._up:
            self._heed(message)

    def take(self, order: LoadOrder, number: int) -> None:
        """Make ready for an order, and say so. Raises UsageError where a file that it names is no good."""
        self._order, self.number = order, number
        self.session = Session(
            order,
            number,
            os.environ.get(API_KEY_VARIABLE, ""),
            send=self._send,
            resolved=self._show,
            note=lambda text: self._tell(m.NOTE, {"text": text}),
            gauges=self.clock.gauges,
            environment=self.environment,
            fail=self.fail,
        )
        local = self.clock.to_worker
        for name, listener in (
            (m.START, lambda d: self.session.start(local(d["t0_ns"]))),
            (m.MARK, lambda d: self.session.mark(_moved(Mark.from_wire(d["mark"]), local))),
            (m.LIMITS, lambda d: self.session.limits({int(k): tuple(v) for k, v in d["limits"].items()})),
            (m.HORIZON, lambda d: self.session.horizon(local(d["until_ns"]))),
            (m.STOP, lambda d: self.session.stop(local(d["at_ns"]) if d["at_ns"] else 0, d["drain_s"])),
            (m.ACK, lambda d: self._acknowledged(d["seq"])),
        ):
            self.runner.register_message(name, _unwrap(listener))
        self._tell(m.CONNECTED, {"number": number})

    def fail(self, reason: str, code: int = 1) -> NoReturn:
        """End this process, and tell the master why."""
        sys.stderr.write(f"load: {reason}\n")
        sys.stderr.flush()
        self._tell(m.FAILED, {"number": self.number, "reason": reason})
        gevent.sleep(_LAST_WORDS_S)
        os._exit(code)

    def _quit(self, data: dict[str, Any]) -> None:
        sys.stderr.write(f"chaosflow worker: {data['reason']}\n")
        sys.stderr.flush()
        os._exit(1)

    def _ping_for_ever(self) -> None:
        while True:
            self.ping()
            gevent.sleep(_PING_EVERY_S)

    def ping(self) -> None:
        """Ask for the master's clock; the answer goes to ``clock``."""
        self._tell(m.PING, {"sent_ns": time.monotonic_ns()})

    def carry_on(self) -> None:
        """The dispatcher user's task: the whole load of this worker, then the end of the process."""
        self._up = True
        self._tell(m.UP, {"number": self.number})
        self.session.run()
        self._deliver()
        self._tell(m.DONE, {"number": self.number})
        gevent.sleep(_LAST_WORDS_S)
        os._exit(0)

    def _tell(self, name: str, data: dict[str, Any]) -> None:
        self.runner.send_message(name, data)

    def _send(self, batch: CellBatch) -> None:
        batch.watermark_ns = self.clock.to_master(batch.watermark_ns)
        self._unacknowledged[batch.seq] = orjson.dumps(batch.to_wire())
        self._tell(m.CELLS, self._cells_message(batch.seq))

    def _cells_message(self, seq: int) -> dict[str, Any]:
        return {"number": self.number, "seq": seq, "batch": self._unacknowledged[seq]}

    def _acknowledged(self, seq: int) -> None:
        news = [s for s in self._unacknowledged if s <= seq]
        for known in news:
            del self._unacknowledged[known]
        patient = time.monotonic() - self._resent_s < _RESEND_AFTER_S
        if not news and self._unacknowledged and not patient:
            self._resend()  # one was lost on the way (a broken connection), and the master took none after it
        self._ack.set()

    def _resend(self) -> None:
        self._resent_s = time.monotonic()
        for seq in list(self._unacknowledged):
            self._tell(m.CELLS, self._cells_message(seq))

    def _deliver(self) -> None:
        """Wait until the master has every batch, sending again what it does not confirm."""
        with gevent.Timeout(_ACK_TIMEOUT_S, False):
            while self._unacknowledged:
                self._ack.clear()
                if not self._ack.wait(_RESEND_AFTER_S):
                    self._resend()

    def _show(self, record: RequestRecord) -> None:
        """Locust's own statistics: display only; constant names, so that they do not grow."""
        self.environment.events.request.fire(
            request_type="SSE",
            name=self._order.plan.endpoint,
            response_time=(record.e2e_ns or 0) / 1e6,
            response_length=record.tokens,
            exception=_FAILURES.get(record.outcome.value),
        )


_FAILURES = {
    outcome: RuntimeError(outcome)
    for outcome in ("connect", "http", "error_event", "truncated", "reset", "deadline", "unparseable")
}


def _dispatcher_of(worker: Worker) -> type[Any]:
    class Dispatcher(User):
        @task
        def carry_on(self) -> None:
            worker.carry_on()
            raise StopUser

    return Dispatcher


def _moved(mark: Mark, local: Callable[[int], int]) -> Mark:
    return Mark(mark.kind, local(mark.at_ns), mark.fault, mark.reversible)


def _unwrap(listener: Any) -> Any:
    def on_message(environment: Any, msg: Any, **_: Any) -> None:
        listener(msg.data)

    return on_message


def _introduce_itself(number: int, parent: int) -> None:
    """A name of its own in ps and top; and the end of the master is its own."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NAME, b"load-worker-%d" % number)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def take_precedence() -> None:
    """Ahead of stressors and of the target on a shared machine: a late client measures only itself.

    Real-time where the machine lets us (root, CAP_SYS_NICE, no cgroup without rt_runtime; sched(7)): among busy
    processes even nice -10 waits for a free core, by tens of ms. The kernel keeps 5 % of a core for the others.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def open_more_files() -> None:
    """Each stream is a descriptor, and 1,024 is still a usual soft limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(order: LoadOrder, number: int, parent: int, address: Connection) -> None:
    """The whole life of a worker that ``parent``, the master, forked; it says at which address it listens."""
    _introduce_itself(number, parent)
    take_precedence()
    open_more_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides
    locust.runners.WORKER_LOG_REPORT_INTERVAL = -1
    worker = Worker(*address.recv())
    try:
        worker.take(order, number)
    except ChaosflowError as e:
        worker.fail(str(e))
    gevent.signal_handler(signal.SIGTERM, worker.session.stop, 0, 0.0)
    settle()
    worker.runner.greenlet.join()


def settle() -> None:
    """All that is here now stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)  # a collection then takes a ms, not six
