"""A real Prometheus on loopback, with its own folder."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def tool(name: str) -> str | None:
    """The path of ``prometheus`` or ``promtool``; None where this machine has none."""
    unpacked = ROOT / "build" / "prometheus" / name
    return shutil.which(name) or (str(unpacked) if unpacked.exists() else None)


REASON = "no prometheus on PATH nor in build/prometheus; .ci/system-packages unpacks Debian's"


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """``data`` of an answer of its HTTP API; asserts that it is a success."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as e:
            with e:
                raise AssertionError(f"{path} {parameters}: {e.read().decode()}") from None
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result

    def until(self, expression: str, within_s: float = 30) -> list[dict[str, Any]]:
        """The first answer that is not empty."""
        give_up = time.monotonic() + within_s
        while not (found := self.query(expression)):
            assert time.monotonic() < give_up, f"never any data for {expression}"
            time.sleep(0.2)
        return found


@contextlib.contextmanager
def running_prometheus(config: Path, folder: Path) -> Iterator[Prometheus]:
    """Serve until the block ends; its data and log go below ``folder``."""
    program = tool("prometheus")
    assert program
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        _wait_ready(process, f"http://127.0.0.1:{port}/-/ready", folder / "prometheus.log")
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up = time.monotonic() + 30
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.1)
