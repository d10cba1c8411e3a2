"""The fault proxy alone.

The control API is Toxiproxy's: without --api and --control it listens on 127.0.0.1:8474, as Toxiproxy does.
Prints one JSON line, {"listening": "127.0.0.1:40123", "api": "127.0.0.1:8474", "pid": 812}, when it accepts connections.
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
from typing import Any

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.faults.proxy.address import Address
from chaosflow.faults.proxy.control import Control
from chaosflow.faults.proxy.server import Proxies

_API = "127.0.0.1:8474"
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
    parser = argparse.ArgumentParser(prog="chaosflow proxy", description=__doc__)
    parser.add_argument("--control", help="path of a Unix socket for the control API")
    parser.add_argument("--api", help=f"HOST:PORT for the control API (without --control: {_API})")
    parser.add_argument("--config", type=Path, help="JSON list of proxies to begin with, as POST /populate")
    parser.add_argument("--listen", help="HOST:PORT or unix:PATH (default: any port of 127.0.0.1)")
    parser.add_argument("--upstream", help="HOST:PORT or unix:PATH to lead to; without it no proxy is made")
    parser.add_argument("--name", default="target", help="name of that proxy in the API")
    parser.add_argument("--seed", type=int, help="of toxicity and jitter; default: from the system")
    return parser


async def _run(args: argparse.Namespace) -> None:
    if args.listen and not args.upstream:
        raise UsageError(f"--listen {args.listen}", "leads nowhere", "say where to with --upstream HOST:PORT")
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    proxies = Proxies(args.seed)
    async with contextlib.AsyncExitStack() as ends:
        ends.push_async_callback(proxies.close)
        control = Control(proxies)
        ready: dict[str, Any] = {"listening": None}
        if args.control:
            await _listen_control(args.control, control, ends)
        if args.api or not args.control:
            ready["api"] = await _listen_api(Address.parse(args.api or _API), control, ends)
        if args.upstream:
            listen = Address.parse(args.listen or "127.0.0.1:0")
            made = await proxies.create(args.name, listen, Address.parse(args.upstream))
            ready["listening"] = str(made.listening)
        if args.config:
            await _populate(args.config, control)
        gc.collect()
        gc.freeze()  # what is loaded now lives for ever: collections during traffic stay short
        sys.stdout.write(json.dumps({**ready, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        await stop.wait()


async def _listen_api(address: Address, control: Control, ends: contextlib.AsyncExitStack) -> str:
    """Where the control API listens now."""
    try:
        server = await asyncio.start_server(control.serve, address.host, address.port)
    except OSError as e:
        cause = f"cannot listen ({os.strerror(e.errno) if e.errno else e})"
        raise UsageError(f"control API on {address}", cause, "choose another port with --api") from e
    ends.callback(server.close)
    host, port = server.sockets[0].getsockname()[:2]
    return str(Address(host=host, port=port))


async def _populate(file: Path, control: Control) -> None:
    try:
        content = file.read_bytes()
    except OSError as e:
        raise UsageError(f"--config {file}", f"cannot be read ({e.strerror})") from e
    status, answer = await control.answer("POST", "/populate", content)
    if status != 201:
        raise UsageError(f"--config {file}", answer["error"])


async def _listen_control(path: str, control: Control, ends: contextlib.AsyncExitStack) -> None:
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        raise UsageError(
            f"control socket {path}", "the path is longer than 107 bytes", "use a shorter folder"
        )
    if Path(path).exists():
        raise UsageError(f"control socket {path}", "exists already", "another proxy uses it, or remove it")
    before = os.umask(0o077)
    try:
        server = await asyncio.start_unix_server(control.serve, path)
    except OSError as e:
        raise UsageError(f"control socket {path}", f"cannot be made ({e.strerror})") from e
    finally:
        os.umask(before)
    ends.callback(_unlink, path)
    ends.callback(server.close)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


if __name__ == "__main__":
    sys.exit(main())
