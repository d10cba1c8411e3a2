"""A load worker: one Locust worker process, with one dispatcher user that runs the session.

Started by the master as ``python -m chaosflow.load.worker ORDER_FILE NUMBER PARENT_PID``; reads the master's
port from standard input, whose end, like the master's death, ends it.
"""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()  # before anything imports ssl

import contextlib
import ctypes
import gc
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import gevent
import gevent.os
import locust.runners
import orjson
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from chaosflow.core.loadlink import API_KEY_VARIABLE, LoadOrder
from chaosflow.core.sample import RequestRecord
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CellBatch
from chaosflow.load import messages as m
from chaosflow.load.session import Session

_PR_SET_PDEATHSIG = 1
_NICE = -10
_ACK_TIMEOUT_S = 5.0
_RESEND_AFTER_S = 1.0


class Worker:
    """Joins Locust's runner and the session: control messages in, numbered batches out."""

    def __init__(self, order: LoadOrder, number: int, port: int) -> None:
        self._order, self.number = order, number
        self._unacknowledged: dict[int, bytes] = {}
        self._ack = Event()
        self.environment: Any = Environment(
            user_classes=[_dispatcher_of(self)], parsed_options=Namespace(web_base_path=""), stop_timeout=0
        )
        self.session = Session(
            order,
            number,
            os.environ.get(API_KEY_VARIABLE, ""),
            send=self._send,
            resolved=self._show,
            note=lambda text: self._tell(m.NOTE, {"text": text}),
        )
        self.runner: Any = self.environment.create_worker_runner("127.0.0.1", port)
        for name, listener in (
            (m.START, lambda d: self.session.start(d["t0_ns"])),
            (m.MARK, lambda d: self.session.mark(Mark.from_wire(d["mark"]))),
            (m.LIMITS, lambda d: self.session.limits({int(k): tuple(v) for k, v in d["limits"].items()})),
            (m.HORIZON, lambda d: self.session.horizon(d["until_ns"])),
            (m.STOP, lambda d: self.session.stop(d["at_ns"], d["drain_s"])),
            (m.ACK, lambda d: self._acknowledged(d["seq"])),
        ):
            self.runner.register_message(name, _unwrap(listener))
        self._tell(m.CONNECTED, {"number": number})

    def carry_on(self) -> None:
        """The dispatcher user's task: the whole load of this worker, then the end of the process."""
        self._tell(m.UP, {"number": self.number})
        self.session.run()
        self._deliver()
        self._tell(m.DONE, {"number": self.number})
        gevent.sleep(0.05)  # zmq sends in a thread of its own
        os._exit(0)

    def _tell(self, name: str, data: dict[str, Any]) -> None:
        self.runner.send_message(name, data)

    def _send(self, batch: CellBatch) -> None:
        self._unacknowledged[batch.seq] = orjson.dumps(batch.to_wire())
        self._tell(m.CELLS, self._cells_message(batch.seq))

    def _cells_message(self, seq: int) -> dict[str, Any]:
        return {"number": self.number, "seq": seq, "batch": self._unacknowledged[seq]}

    def _acknowledged(self, seq: int) -> None:
        for known in [s for s in self._unacknowledged if s <= seq]:
            del self._unacknowledged[known]
        self._ack.set()

    def _deliver(self) -> None:
        """Wait until the master has every batch, sending again what it does not confirm."""
        with gevent.Timeout(_ACK_TIMEOUT_S, False):
            while self._unacknowledged:
                self._ack.clear()
                if not self._ack.wait(_RESEND_AFTER_S):
                    for seq in list(self._unacknowledged):
                        self._tell(m.CELLS, self._cells_message(seq))

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
        fixed_count = worker._order.plan.workers

        @task
        def carry_on(self) -> None:
            worker.carry_on()
            raise StopUser

    return Dispatcher


def _unwrap(listener: Any) -> Any:
    def on_message(environment: Any, msg: Any, **_: Any) -> None:
        listener(msg.data)

    return on_message


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def _take_precedence() -> None:
    """Ahead of stressors and of the target on a shared machine: a late client measures only itself."""
    with contextlib.suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _exit_at_end_of_input() -> None:
    while gevent.os.tp_read(0, 4096):
        pass
    os._exit(1)


def main() -> None:
    order_file, number, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _die_with_parent(parent)
    _take_precedence()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides
    order = LoadOrder.model_validate_json(Path(order_file).read_bytes())
    port = int(sys.stdin.readline())
    gevent.spawn(_exit_at_end_of_input)
    worker = Worker(order, number, port)
    gevent.signal_handler(signal.SIGTERM, worker.session.stop, 0, 0.0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    worker.runner.greenlet.join()


if __name__ == "__main__":
    locust.runners.WORKER_LOG_REPORT_INTERVAL = -1
    main()
