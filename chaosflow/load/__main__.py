"""``python -m chaosflow.load ORDER_FILE SOCKET``: the load of one run (chaosflow.core.loadlink)."""

from __future__ import annotations

import os

from gevent import monkey

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: with one thread, to fork is safe
    monkey.patch_all()  # before anything imports ssl

import gc
import multiprocessing
import signal
import socket
import sys
from pathlib import Path

from chaosflow.core.errors import UsageError
from chaosflow.core.loadlink import LoadOrder
from chaosflow.load import worker
from chaosflow.load.master import Forked, Master


def main(order_file: str, link_path: str) -> int:
    """Run the load to its end; 0 when every worker that was not lost has sent all."""
    order = LoadOrder.model_validate_json(Path(order_file).read_bytes())
    if order_file.startswith("/dev/fd/"):
        # it holds secrets, and a locustfile may start programs
        os.close(int(order_file.removeprefix("/dev/fd/")))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides
    gc.freeze()
    workers = [_fork(order, number) for number in range(order.plan.workers)]
    with socket.socket(socket.AF_UNIX) as link:
        try:
            master = Master(order, workers, link)
        except UsageError as e:
            sys.exit(str(e))  # before the orchestrator has heard of us: it shows these last words
        link.connect(link_path)
        return master.run()


def _fork(order: LoadOrder, number: int) -> Forked:
    """A worker that has Locust imported already: that takes most of a second, and 40 MB."""
    theirs, ours = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=worker.main, args=(order, number, os.getpid(), theirs), daemon=True
    )
    process.start()
    theirs.close()
    return Forked(process, ours)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # Locust's own greenlets are not waited for
