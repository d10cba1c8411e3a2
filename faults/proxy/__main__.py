"""``python -m chaosflow.faults.proxy --control SOCKET [--listen HOST:PORT --upstream HOST:PORT --name target]``.

Prints one JSON line, ``{"listening": "127.0.0.1:40123", "pid": 812}``, when it accepts connections.
Ends on SIGTERM or SIGINT; connections through it are then reset.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.faults.proxy.address import Address
from chaosflow.faults.proxy.control import Control
from chaosflow.faults.proxy.server import Proxies

_SOCKET_PATH_LIMIT = 107


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end; the exit code (0, or that of a ChaosflowError)."""
    args = _parser().parse_args(argv)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors per connection
    try:
        asyncio.run(_run(args))
    except ChaosflowError as e:
        sys.stderr.write(f"chaosflow proxy: {e}\n")
        return int(e.exit_code)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaosflow.faults.proxy", description=__doc__)
    parser.add_argument("--control", required=True, help="path of the Unix socket of the control API")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT or unix:PATH (default: any port)")
    parser.add_argument("--upstream", help="HOST:PORT or unix:PATH to lead to; without it no proxy is made")
    parser.add_argument("--name", default="target", help="name of that proxy in the API")
    parser.add_argument("--seed", type=int, help="of toxicity and jitter; default: from the system")
    return parser


async def _run(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    proxies = Proxies(args.seed)
    control = await _listen_control(args.control, proxies)
    try:
        listening = None
        if args.upstream:
            made = await proxies.create(args.name, Address.parse(args.listen), Address.parse(args.upstream))
            listening = str(made.listening)
        gc.collect()
        gc.freeze()  # what is loaded now lives for ever: collections during traffic stay short
        sys.stdout.write(json.dumps({"listening": listening, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        control.close()
        await proxies.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(args.control)


async def _listen_control(path: str, proxies: Proxies) -> asyncio.Server:
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        raise UsageError(
            f"control socket {path}", "the path is longer than 107 bytes", "use a shorter folder"
        )
    if Path(path).exists():
        raise UsageError(f"control socket {path}", "exists already", "another proxy uses it, or remove it")
    before = os.umask(0o077)
    try:
        return await asyncio.start_unix_server(Control(proxies).serve, path)
    except OSError as e:
        raise UsageError(f"control socket {path}", f"cannot be made ({e.strerror})") from e
    finally:
        os.umask(before)


if __name__ == "__main__":
    sys.exit(main())
