"""The included engine as a real process, for tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import IO, Any


@dataclass(frozen=True)
class RunningEngine:
    process: subprocess.Popen[bytes]
    url: str
    port: int
    model: str

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        """Sum of one metric over its labels."""
        prefix = "chaosflow_engine_" + name
        lines = [line.split() for line in self.get("/metrics").splitlines() if line.startswith(prefix)]
        return sum(float(value) for _, value in lines)

    def connect(self, path: str = "/v1/chat/completions", **fields: Any) -> HTTPConnection:
        """A connection on which a request has been sent."""
        prompt = {"prompt": "hello"} if path == "/v1/completions" else {"messages": MESSAGES}
        body = json.dumps({"model": self.model, **prompt, **fields})
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        return connection

    def post(self, path: str = "/v1/chat/completions", **fields: Any) -> tuple[int, str]:
        connection = self.connect(path, **fields)
        try:
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


MESSAGES = [{"role": "user", "content": "say something"}]


def events(body: str) -> list[Any]:
    """The events of a stream, JSON decoded; ``[DONE]`` stays a string."""
    lines = [line[6:] for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@contextmanager
def running_engine(*arguments: str, errors: IO[bytes] | None = None) -> Iterator[RunningEngine]:
    """Start one, wait until it listens, stop it at the end. ``errors`` gets its log."""
    command = [sys.executable, "-m", "chaosflow.engine", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    try:
        hello = json.loads(process.stdout.readline())
        assert hello["pid"] == process.pid
        yield RunningEngine(
            process, hello["listening"], int(hello["listening"].rsplit(":", 1)[1]), hello["model"]
        )
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
