"""Three network namespaces on one bridge, as three machines would be; gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

PORT = 8000


class Machine(NamedTuple):
    """One of them."""

    name: str
    address: str

    @property
    def within(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def three_machines() -> Iterator[tuple[Machine, Machine, Machine]]:
    """The first holds the bridge."""
    made = [Machine(f"cfload{os.getpid()}{letter}", f"10.99.0.{n}") for n, letter in enumerate("mab", 1)]
    with ExitStack() as stack:
        for machine in made:
            run("ip", "netns", "add", machine.name)
            stack.callback(run, "ip", "netns", "del", machine.name)
            run("ip", "-n", machine.name, "link", "set", "lo", "up")
        first = made[0]
        run("ip", "-n", first.name, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", first.name, "addr", "add", f"{first.address}/24", "dev", "br0")
        run("ip", "-n", first.name, "link", "set", "br0", "up")
        for machine in made[1:]:
            port = f"v{machine.name[-1]}"
            run(
                "ip",
                "-n",
                first.name,
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                machine.name,
            )
            run("ip", "-n", first.name, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            run("ip", "-n", machine.name, "link", "set", "eth0", "up")
        yield made[0], made[1], made[2]


@contextmanager
def server_on(machine: Machine, bodies: Path) -> Iterator[str]:
    """The scripted server there; its URL for the case ``good``. Afterwards ``bodies`` holds what it was sent."""
    program = str(Path(__file__).with_name("load_scripted_server.py"))
    process = subprocess.Popen(
        [*machine.within, sys.executable, program, machine.address, str(PORT), str(bodies)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield f"http://{machine.address}:{PORT}/good/v1"
    finally:
        process.communicate(timeout=20)


@contextmanager
def worker_on(within: list[str], master: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``chaosflow worker --master …`` there."""
    process = subprocess.Popen(
        [
            *within,
            sys.executable,
            "-m",
            "chaosflow.load.remote",
            "--master",
            master,
            "--records",
            str(folder),
        ],
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
