"""Commands that are programs of their own: each reads its own options."""

from __future__ import annotations

import os
import sys

import typer


def _own_arguments(command: str) -> list[str]:
    """What stands behind a command whose program reads its own options, ``--`` included."""
    return sys.argv[sys.argv.index(command) + 1 :]


def serve() -> None:
    """Serve the included engine (OpenAI-compatible); --help shows its options."""
    from chaosflow.engine.__main__ import main as engine_main

    raise typer.Exit(engine_main(_own_arguments("serve")))


def proxy() -> None:
    """Run the fault proxy alone; --help shows its options."""
    from chaosflow.faults.proxy.__main__ import main as proxy_main

    raise typer.Exit(proxy_main(_own_arguments("proxy")))


def vgpu() -> None:
    """Run a Python tool on a virtual GPU: vgpu STATE -- COMMAND; --help shows its options."""
    from chaosflow.gpu.__main__ import main as vgpu_main

    raise typer.Exit(vgpu_main(_own_arguments("vgpu")))


def worker() -> None:
    """Join a run's load from another machine: worker --master HOST; --help shows its options."""
    # a process of its own from the first line on: gevent must come before everything else
    os.execv(sys.executable, [sys.executable, "-P", "-m", "chaosflow.load.remote", *_own_arguments("worker")])
