"""``chaosflow doctor`` without a scenario: a row for every atom and probe there is, whatever this machine has."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.orchestrator.catalogue import load_atoms, load_probes

SCENARIO = """\
version: 1
target: {url: "URL"}
load: {arrival: {kind: constant, rate_per_s: 5}}
faults: [{name: slow, type: proxy.latency, duration: 5s, params: {delay_ms: 10}}]
probes: []
sla: {objectives: [ttft.p50 <= 1s]}
"""


class _Healthy(http.server.BaseHTTPRequestHandler):
    """Healthy at the root, with its API below /v1 only."""

    def do_GET(self) -> None:
        known = self.path in ("/health", "/v1/models")
        body = b'{"data": [{"id": "tiny"}]}' if known else b"{}"
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chaosflow", "doctor", *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/v1", 0, "/health answers; model tiny"),
        ("/v2", 2, "/v2/models answers with status 404; check the path in target.url"),
    ],
)
def test_doctor_of_a_scenario_asks_the_server(
    path: str, code: int, words: str, port: int, tmp_path: Path
) -> None:
    """All was well by the doctor, and the run then ended invalid."""
    file = tmp_path / "mine.yaml"
    file.write_text(SCENARIO.replace("URL", f"http://127.0.0.1:{port}{path}"))
    done = doctor(str(file))
    assert done.returncode == code, done.stdout + done.stderr
    assert words.replace(" ", "") in "".join(done.stdout.split()), done.stdout


@pytest.mark.slow
def test_doctor_of_a_scenario_says_that_nothing_answers(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SCENARIO.replace("URL", "http://127.0.0.1:1/v1"))
    done = doctor(str(file))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "not healthy" in done.stdout
    assert "start it" in " ".join(done.stdout.split())


def test_doctor_has_an_answer_for_every_kind() -> None:
    """A check that looked at a required parameter broke the whole table."""
    done = doctor()
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split()
    missing = [a.kind for a in load_atoms() if a.kind not in words]
    missing += [p.name for p in load_probes() if p.name not in words]
    assert not missing, done.stdout
    assert ":80/" not in done.stdout, "a port that nobody named"
