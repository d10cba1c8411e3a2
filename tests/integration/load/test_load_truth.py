"""Fidelity against a server that records its own exact schedule (bench/bench_fidelity.py has the figures)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_orchestrator import LoadRun

from chaosflow.load.records import read_records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) to build the truth server"),
]
SOURCE = Path(__file__).parents[3] / "bench" / "truth_sse.c"
STREAMS, ROUNDS = 64, 3


@pytest.fixture
def truth_port(tmp_path: Path) -> Iterator[int]:
    binary = tmp_path / "truth_sse"
    subprocess.run(["cc", "-O2", "-w", "-o", binary, SOURCE, "-lm"], check=True)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    process = subprocess.Popen([binary, str(port), "50", "10", "64", "rp"])
    try:
        for _ in range(300):
            try:
                get(port, "/health")
                break
            except OSError:
                time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        body: bytes = response.read()
        return body


def test_ttft_at_64_streams_is_true(tmp_path: Path, truth_port: int) -> None:
    plan = {
        "arrival": {"kind": "closed", "users": STREAMS},
        "max_requests": STREAMS * ROUNDS,
        "output_tokens": 64,
    }
    with LoadRun(tmp_path, f"http://127.0.0.1:{truth_port}/v1", plan) as run:
        run.start()
        run.run_for(ROUNDS * 0.8)
        assert run.stop(drain_s=10) == 0
        assert run.total().tokens == STREAMS * ROUNDS * 64
    rows: list[dict[str, Any]] = list(read_records(tmp_path / "records-0.jsonl.gz"))
    assert [r["outcome"] for r in rows] == ["ok"] * (STREAMS * ROUNDS)
    assert sum(r["user_stamps"] for r in rows) == 0
    true = json.loads(get(truth_port, "/stats"))["ttft_ms"]
    ttft_ms = [(r["event_us"][0] - r["sent_us"]) / 1e3 for r in rows]
    assert sum(ttft_ms) / len(ttft_ms) == pytest.approx(true["mean"], abs=5)
