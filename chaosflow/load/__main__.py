"""``python -m chaosflow.load ORDER_FILE SOCKET``: the load of one run (chaosflow.core.loadlink)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main(order_file: str, link_path: str) -> int:
    """Run the load to its end; 0 when every worker that was not lost has sent all."""
    content = Path(order_file).read_bytes()
    command = [sys.executable, "-m", "chaosflow.load.worker", order_file]
    processes = [  # first of all: they import Locust while we do
        subprocess.Popen(
            [*command, str(number), str(os.getpid())], stdin=subprocess.PIPE, pass_fds=_descriptor(order_file)
        )
        for number in range(json.loads(content)["plan"].get("workers", 1))
    ]
    try:
        return _run(content, processes, link_path)
    finally:
        for process in processes:
            process.kill()


def _descriptor(order_file: str) -> tuple[int, ...]:
    """The inherited descriptor that ``/dev/fd/N`` names: the workers need it too."""
    return (int(order_file.removeprefix("/dev/fd/")),) if order_file.startswith("/dev/fd/") else ()


def _run(content: bytes, processes: list[subprocess.Popen[bytes]], link_path: str) -> int:
    from gevent import monkey

    monkey.patch_all()  # before anything imports ssl
    import signal
    import socket

    from chaosflow.core.loadlink import LoadOrder
    from chaosflow.load.master import Master

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(link_path)
        return Master(LoadOrder.model_validate_json(content), processes, link).run()


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # Locust's own greenlets are not waited for
