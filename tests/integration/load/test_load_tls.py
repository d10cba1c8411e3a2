"""The streaming client over TLS keeps its kernel stamps."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from load_scripted_server import END, FINISH, HEAD, TOKEN, chunk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command to make a certificate"),
]


def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return key, cert


def serve(listener: socket.socket, context: ssl.SSLContext, connections: int) -> None:
    for _ in range(connections):
        raw, _ = listener.accept()
        try:
            with context.wrap_socket(raw, server_side=True) as peer:
                peer.recv(65536)
                for part in (HEAD, chunk(TOKEN), chunk(TOKEN), chunk(TOKEN, FINISH, b"[DONE]") + END):
                    peer.sendall(part)
        except OSError:
            raw.close()


def fetch(port: int, env: dict[str, str]) -> dict[str, object]:
    order = {
        "run_id": "r",
        "url": f"https://localhost:{port}/v1",
        "connect": ["127.0.0.1", port],
        "model": "tiny",
        "plan": {"arrival": {"kind": "constant", "rate_per_s": 1}, "prompt_tokens": 5, "deadline": 5},
        "seed": 1,
        "objectives": [],
        "fault_names": [],
        "records_dir": "",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("load_fetch_driver.py"))],
        input=json.dumps({"order": order}) + "\n",
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    row: dict[str, object] = json.loads(done.stdout)[0]
    return row


def test_tls_stream_and_an_unknown_certificate(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener, context, 2))
        server.start()
        port = listener.getsockname()[1]
        good = fetch(port, {"SSL_CERT_FILE": str(cert)})
        refused = fetch(port, {})
        server.join()
    assert (good["outcome"], good["tokens"], good["user_stamps"]) == ("ok", 3, 0), good
    assert refused["outcome"] == "connect"
    assert "certificate" in str(refused["error"]).lower()
