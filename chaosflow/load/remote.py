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

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.core.listening import split_address
from chaosflow.core.loadlink import LoadOrder
from chaosflow.load import messages as m
from chaosflow.load.knock import knock
from chaosflow.load.worker import Worker, open_more_files, settle, take_precedence

_JOIN_S = 300.0
_MASTER_SILENT_NS = 5_000_000_000
_CLOCK_PINGS = 10


def main(argv: Sequence[str]) -> int:
    """Carry out one run's share; returns the exit code: 0 when all was delivered, 1 when the master is gone.

    Needs a process of its own, patched by gevent (``python -m chaosflow.load.remote``).
    """
    options = _parse(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        host, port = split_address(options.master, "--master")
        _records_folder(options.records)
        _say(f"waiting for a run at {host}:{port}")
        knock(host, port, _JOIN_S)
    except UsageError as e:
        _say(str(e))
        return int(e.exit_code)
    take_precedence()
    open_more_files()
    worker = Worker(host, port)
    order: AsyncResult[dict[str, Any]] = AsyncResult()
    worker.runner.register_message(m.ORDER, lambda environment, msg, **_: order.set(msg.data))
    _measure_clock(worker)
    worker.runner.send_message(m.JOIN, {"host": socket.gethostname(), **worker.clock.gauges()})
    gevent.spawn(_watch_master, worker)
    try:
        given = order.get(timeout=_JOIN_S)
    except gevent.Timeout:
        _say(f"no order within {_JOIN_S:g} s")
        return 1
    worker.number = given["number"]
    try:
        worker.take(_settle_in(given["order"], options.records), worker.number)
    except ChaosflowError as e:
        worker.fail(str(e), int(e.exit_code))
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
    try:
        order = LoadOrder.model_validate_json(order_json)
    except ValueError as e:
        cause = "cannot be read: another version of ChaosFlow wrote it"
        raise UsageError("the run's order", cause, "install the same version here") from e
    folder = _records_folder(str(Path(records) / f"chaosflow-{order.run_id}"))
    _say(f"joined run {order.run_id}; raw records go to {folder}")
    return order.model_copy(update={"records_dir": folder})


def _records_folder(path: str) -> str:
    """Made, where it is not there. Raises UsageError."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"--records {path}", e.strerror or str(e), "name a folder that you may write to"
        ) from e
    if not os.access(path, os.W_OK):
        raise UsageError(f"--records {path}", "is not writable", "name a folder that you may write to")
    return path


def _watch_master(worker: Worker) -> None:
    while time.monotonic_ns() - worker.clock.heard_ns < _MASTER_SILENT_NS:
        gevent.sleep(0.5)
    _say("the master does not answer any more" if worker.clock.known else "no ChaosFlow run answers there")
    os._exit(1)


def _say(text: str) -> None:
    sys.stderr.write(f"chaosflow worker: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
