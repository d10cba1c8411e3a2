"""``chaosflow worker --master HOST``: a load worker on another machine.

It knows nothing of the run beforehand: it joins, gets the order from the master, and ends with the run. The API key
does not travel: set CHAOSFLOW_TARGET_API_KEY here too. Locust's channel is neither encrypted nor authenticated: use
it in a network that you trust.
"""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()  # before anything imports ssl

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gevent
from gevent.event import AsyncResult

from chaosflow.core.errors import ChaosflowError
from chaosflow.core.loadlink import LoadOrder
from chaosflow.load import messages as m
from chaosflow.load.worker import Worker, open_more_files, settle, take_precedence

_PORT = 5557
_JOIN_S = 300.0
_MASTER_SILENT_NS = 5_000_000_000
_CLOCK_PINGS = 10


def main(argv: Sequence[str]) -> int:
    """Carry out one run's share; returns the exit code: 0 when all was delivered, 1 when the master is gone.

    Needs a process of its own, patched by gevent (``python -m chaosflow.load.remote``).
    """
    options = _parse(argv)
    host, _, port = options.master.rpartition(":") if ":" in options.master else (options.master, "", "")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    take_precedence()
    open_more_files()
    worker = Worker(host.strip("[]"), int(port or _PORT))
    order: AsyncResult[dict[str, Any]] = AsyncResult()
    worker.runner.register_message(m.ORDER, lambda environment, msg, **_: order.set(msg.data))
    _measure_clock(worker)
    worker.runner.send_message(m.JOIN, {"host": socket.gethostname(), **worker.clock.gauges()})
    gevent.spawn(_watch_master, worker)
    try:
        given = order.get(timeout=_JOIN_S)
    except gevent.Timeout:
        sys.stderr.write(f"chaosflow worker: no order within {_JOIN_S:g} s\n")
        return 1
    try:
        worker.take(_settle_in(given["order"], options.records), given["number"])
    except ChaosflowError as e:
        sys.stderr.write(f"chaosflow worker: {e}\n")
        return int(e.exit_code)
    gevent.signal_handler(signal.SIGTERM, worker.session.stop, 0, 0.0)
    settle()
    worker.runner.greenlet.join()
    return 1


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaosflow worker", description="Join the load of a run elsewhere.")
    parser.add_argument("--master", required=True, metavar="HOST[:PORT]", help="load.listen of the scenario")
    parser.add_argument(
        "--records", default=".", metavar="FOLDER", help="where raw records go (default: here)"
    )
    return parser.parse_args(argv)


def _measure_clock(worker: Worker) -> None:
    """Before anything depends on it."""
    deadline_s = time.monotonic() + 10
    while worker.clock.known < _CLOCK_PINGS and time.monotonic() < deadline_s:
        worker.ping()
        gevent.sleep(0.02)


def _settle_in(order_json: str, records: str) -> LoadOrder:
    """The order, with the records to go to a folder of this machine."""
    order = LoadOrder.model_validate_json(order_json)
    folder = Path(records) / f"chaosflow-{order.run_id}"
    folder.mkdir(parents=True, exist_ok=True)
    return order.model_copy(update={"records_dir": str(folder)})


def _watch_master(worker: Worker) -> None:
    while time.monotonic_ns() - worker.clock.heard_ns < _MASTER_SILENT_NS:
        gevent.sleep(0.5)
    sys.stderr.write("chaosflow worker: the master does not answer any more\n")
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
