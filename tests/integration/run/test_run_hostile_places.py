"""Started from odd places, with odd streams, against a server that talks to our terminal."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from conftest_run import Place, scenario

pytestmark = pytest.mark.slow

CHAOSFLOW = [sys.executable, "-P", "-m", "chaosflow"]
JITTER = {"name": "jitter", "type": "proxy.latency", "duration": "500ms", "params": {"delay_ms": 20}}
STRESS = {
    "name": "cpu",
    "type": "host.cpu_stress",
    "with": "jitter",
    "duration": "500ms",
    "params": {"workers": 1},
}


def command(place: Place, data: dict[str, object]) -> list[str]:
    runs = str(place.top / "runs")
    return [*CHAOSFLOW, "run", str(place.write(data)), "--plain", "--runs-dir", runs]


def test_no_helper_imports_what_lies_in_the_working_folder(place: Place) -> None:
    """A repository that has a folder chaosflow/, or modules named as those of the standard library."""
    decoy = place.top / "repo"
    for name in ("chaosflow", "faults", "asyncio", "locust", "yaml"):
        (decoy / name).mkdir(parents=True)
        (decoy / name / "__init__.py").write_text(f"raise SystemExit('the decoy {name} was imported')\n")
    done = subprocess.run(
        command(place, scenario(faults=[JITTER, STRESS])),
        cwd=decoy, env=place.env, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3, 4), done.stdout + done.stderr
    assert "reverted and verified: jitter" in done.stdout
    assert "reverted and verified: cpu" in done.stdout
    logs = "".join(p.read_text() for p in (place.top / "runs").glob("*/logs/*"))
    assert "decoy" not in done.stdout + done.stderr + logs


def test_closed_streams_are_nobodys_descriptors(place: Place) -> None:
    """With descriptors 0 to 2 closed, the first files and sockets of the run would get these numbers."""
    line = command(place, scenario(faults=[JITTER]))
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *line]
    done = subprocess.run(closed, env=place.env, timeout=90, check=False)
    assert done.returncode in (0, 3, 4)
    (folder,) = [p for p in (place.top / "runs").iterdir() if p.is_dir()]
    result = json.loads((folder / "result.json").read_text())
    assert [f["name"] for f in result["faults"] if f["confirmed"]] == ["jitter"]


class Shouting(BaseHTTPRequestHandler):
    """Healthy, and named so that a terminal would be cleared and the name coloured."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "m\x1b[2J\x1b[31m\x9b2J"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.send_error(500)

    def log_message(self, *_: object) -> None:
        return


def test_a_server_does_not_speak_to_our_terminal(place: Place) -> None:
    server = HTTPServer(("127.0.0.1", 0), Shouting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        target = {"url": f"http://127.0.0.1:{server.server_port}/v1"}
        run = place.run(scenario(target=target))
        doctor = place.chaosflow("doctor", str(place.write(scenario(target=target))))
    finally:
        server.shutdown()
        server.server_close()
    for text in (run.text, doctor.stdout, doctor.stderr):
        assert "\x1b" not in text
        assert "\x9b" not in text
    assert "[31m" in run.text, "the name is told, its signs are not obeyed"


class Redirecting(Shouting):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://127.0.0.1:1/login")
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_redirect_is_no_sign_of_health(place: Place) -> None:
    """A login page in front of everything: the load would get it, too."""
    server = HTTPServer(("127.0.0.1", 0), Redirecting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        target = {"url": f"http://127.0.0.1:{server.server_port}/v1", "ready_timeout": "500ms"}
        run = place.run(scenario(target=target))
    finally:
        server.shutdown()
        server.server_close()
    assert run.process.returncode == 4, run.text
    assert "status 302, a redirect, is not followed" in " ".join(run.text.split())


def test_nothing_that_a_banner_says_is_obeyed(place: Place, tmp_path: Path) -> None:
    """Not HTTP at all: the error quotes what came."""
    code = (
        "import socket\n"
        "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept(); c.recv(9999); c.sendall(b'\\x1b[2J hello\\r\\n'); c.close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as talker:
        assert talker.stdout
        port = talker.stdout.readline().strip()
        target = {"url": f"http://127.0.0.1:{port}/v1", "ready_timeout": "500ms"}
        run = place.run(scenario(target=target))
        talker.kill()
    assert run.process.returncode == 4, run.text
    assert "hello" in run.text
    assert "\x1b" not in run.text
