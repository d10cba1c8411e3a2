"""Toxiproxy's HTTP API on a TCP port: its clients drive this proxy unchanged, browsers do not."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxy_rig import echo, server

HERE = Path(__file__).parent


@contextlib.contextmanager
def api(*options: str) -> Iterator[tuple[str, int]]:
    """Host and port of the API of a proxy that runs alone."""
    command = [sys.executable, "-m", "chaosflow.faults.proxy", "--api", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            host, _, port = json.loads(process.stdout.readline())["api"].rpartition(":")
            yield host, int(port)
        finally:
            process.terminate()
            assert process.wait(10) == 0


def call(at: tuple[str, int], method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*at, timeout=10)
    try:
        content = json.dumps(body) if body is not None else None
        connection.request(method, path, content, {key.replace("_", "-"): v for key, v in headers.items()})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm or node is not installed: toxiproxy-node-client cannot be tried")
    folder = tmp_path_factory.mktemp("node")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "toxiproxy-node-client@4"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=90)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        last = (e.stderr or str(e)).strip().splitlines()[-1:]
        pytest.skip(f"toxiproxy-node-client could not be installed: {last}")
    return folder / "node_modules"


@pytest.mark.slow
def test_toxiproxy_node_client_drives_it_unchanged(node_modules: Path) -> None:
    with server(echo) as port, api() as (host, api_port):
        script = node_modules.parent / "drive.js"
        shutil.copy(HERE / "toxiproxy_client.js", script)
        command = ["node", script, f"http://{host}:{api_port}", f"127.0.0.1:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "all as Toxiproxy does"


def test_a_web_page_cannot_reach_the_api() -> None:
    with api() as at:
        assert call(at, "GET", "/proxies", User_Agent="Mozilla/5.0 (X11; Linux x86_64)")[0] == 403
        assert call(at, "POST", "/reset", Origin="http://example.org")[0] == 403
        assert call(at, "GET", "/proxies", User_Agent="toxiproxy-cli/v2.9.0")[0] == 200


def test_populate_keeps_what_is_the_same_and_replaces_what_is_not() -> None:
    with server(echo) as port, api() as at:
        upstream = f"127.0.0.1:{port}"
        status, answer = call(at, "POST", "/populate", [{"name": "a", "upstream": upstream}])
        assert status == 201
        listen = answer["proxies"][0]["listen"]
        toxic = {"type": "latency", "attributes": {"latency": 1}}
        assert call(at, "POST", "/proxies/a/toxics", toxic)[0] == 200
        same = [{"name": "a", "listen": listen, "upstream": upstream, "enabled": True}]
        assert len(call(at, "POST", "/populate", same)[1]["proxies"][0]["toxics"]) == 1
        other = [{"name": "a", "listen": listen, "upstream": "127.0.0.1:1"}]
        answer = call(at, "POST", "/populate", other)[1]["proxies"][0]
        assert (answer["toxics"], answer["listen"], answer["upstream"]) == ([], listen, "127.0.0.1:1")
        status, answer = call(at, "POST", "/populate", [{"name": "b"}])
        assert (status, answer["error"]) == (400, "missing required field: upstream at proxy 1")
        assert call(at, "POST", "/populate", {"name": "b"})[0] == 400
        assert list(call(at, "GET", "/proxies")[1]) == ["a"]


def test_a_proxy_can_be_led_elsewhere() -> None:
    def other(sock: socket.socket) -> None:
        sock.sendall(b"other")

    with server(echo) as first, server(other) as second, api() as at:
        made = call(at, "POST", "/proxies", {"name": "a", "upstream": f"127.0.0.1:{first}"})[1]
        status, answer = call(at, "PATCH", "/proxies/a", {"upstream": f"127.0.0.1:{second}"})
        assert (status, answer["listen"]) == (200, made["listen"])
        host, _, port = made["listen"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as sock:
            assert sock.recv(10) == b"other"
        assert call(at, "POST", "/proxies/a", {"enabled": "no"})[0] == 400
        assert call(at, "POST", "/proxies/a", {"name": "b"})[0] == 400


def test_toxics_are_updated_by_patch_as_by_post() -> None:
    with server(echo) as port, api() as at:
        call(at, "POST", "/proxies", {"name": "a", "upstream": f"127.0.0.1:{port}"})
        toxic = {"type": "bandwidth", "name": "", "stream": "upstream", "attributes": {"rate": 10}}
        assert call(at, "POST", "/proxies/a/toxics", toxic)[1]["name"] == "bandwidth_upstream"
        path = "/proxies/a/toxics/bandwidth_upstream"
        assert call(at, "PATCH", path, {"attributes": {"rate": 20}})[1]["attributes"] == {"rate": 20.0}
        assert call(at, "POST", path, {"toxicity": 0.5})[1]["toxicity"] == 0.5
        assert call(at, "PATCH", path, {"attributes": {"rat": 1}})[0] == 400
        assert call(at, "PATCH", path, {"type": "latency"})[0] == 400
        assert call(at, "DELETE", path) == (204, None)
        assert call(at, "DELETE", path)[0] == 404
        assert call(at, "POST", "/proxies/a/toxics", {"type": "slicer", "stream": "sideways"})[0] == 400


def test_old_and_unusual_clients_are_understood() -> None:
    with api() as at:
        with socket.create_connection(at, timeout=5) as sock:
            sock.sendall(b"GET /version HTTP/1.0\r\n\r\n")
            assert sock.makefile("rb").read().startswith(b"HTTP/1.1 200 OK")
        with socket.create_connection(at, timeout=5) as sock:
            body = b'{"name": "c", "upstream": "127.0.0.1:1"}'
            head = b"POST /proxies HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            sock.sendall(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            assert sock.makefile("rb").read().startswith(b"HTTP/1.1 201 Created")


def test_proxies_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "proxies.json"
    file.write_text(
        '[{"name": "redis", "upstream": "127.0.0.1:1"}, {"name": "b", "upstream": "127.0.0.1:2"}]'
    )
    with api("--config", str(file)) as at:
        assert sorted(call(at, "GET", "/proxies")[1]) == ["b", "redis"]
    file.write_text("[{]")
    command = [sys.executable, "-m", "chaosflow.faults.proxy", "--api", "127.0.0.1:0", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "bad request body" in done.stderr


def test_a_taken_port_is_named() -> None:
    with api() as (host, port):
        command = [sys.executable, "-m", "chaosflow", "proxy", "--api", f"{host}:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 2
        assert "choose another port" in done.stderr
