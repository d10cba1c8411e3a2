"""The truth server, and the clients that are measured against it (bench_fidelity.py)."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Rows = list[dict[str, Any]]


@dataclass(slots=True)
class Measured:
    """One client's run. Times in ms."""

    ttft: list[float] = field(default_factory=list)
    """From the last byte sent."""
    gap: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    tokens_per_s: float = 0.0
    cpu_s: float = 0.0
    """Of all its processes, from their start to their end."""
    interval_share: float = 0.0
    rss_mib: list[float] = field(default_factory=list)
    rows: Rows = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def quantile(values: list[float], q: float) -> float:
    """Nearest rank."""
    return sorted(values)[math.ceil(q * len(values)) - 1] if values else math.nan


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def build(folder: Path) -> Path:
    out = folder / "truth_sse"
    subprocess.run(["cc", "-O2", "-w", "-o", out, HERE / "truth_sse.c", "-lm"], check=True)
    return out


def take_precedence(pid: int) -> None:
    """Server and rivals get the priority that ChaosFlow's workers take: the machine's other work hits none."""
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, pid, -10)
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


@contextmanager
def truth_server(binary: Path, ttft_ms: float, gap_ms: float, tokens: int, flags: str = "r") -> Iterator[int]:
    """A server whose token k is due at t0 + ttft + k gap; it records how well it kept that (``stats``)."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port: int = s.getsockname()[1]
    process = subprocess.Popen([binary, str(port), str(ttft_ms), str(gap_ms), str(tokens), flags])
    take_precedence(process.pid)
    try:
        for _ in range(200):
            with suppress(OSError):
                get(port, "/health")
                break
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        body: bytes = response.read()
        return body


def stats(port: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(port, "/stats"))
    return found


def chaosflow(port: int, plan: dict[str, Any], seconds: float, folder: Path, drain_s: float = 10) -> Measured:
    """The real load process, started and told as the orchestrator does it."""
    run = Path(tempfile.mkdtemp(dir=folder))
    order = {
        "run_id": "bench",
        "url": f"http://127.0.0.1:{port}/v1",
        "model": "tiny",
        "plan": {"prompt_tokens": 8, **plan},
        "seed": 1,
        "objectives": ["ttft.p99 <= 200ms", "gap.p99 <= 100ms"],
        "fault_names": [],
        "records_dir": str(run),
    }
    (run / "order.json").write_text(json.dumps(order))
    found = Measured()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / "s"))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "chaosflow.load", str(run / "order.json"), str(run / "s")]
        )
        link, _ = listener.accept()
        with link, link.makefile("rwb") as lines:
            _converse(lines, seconds, drain_s, found)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    found.cpu_s = used.ru_utime + used.ru_stime
    _read(run, found)
    return found


def _converse(lines: Any, seconds: float, drain_s: float, found: Measured) -> None:
    def send(**message: object) -> None:
        lines.write(json.dumps(message).encode() + b"\n")
        lines.flush()

    assert json.loads(lines.readline())["type"] == "ready"
    t0_ns = time.monotonic_ns() + 50_000_000
    send(type="mark", mark=["baseline_begin", t0_ns, "", True])
    send(type="start", t0_ns=t0_ns)
    send(type="horizon", until_ns=1 << 62)
    send(type="stop", at_ns=t0_ns + round(seconds * 1e9), drain_s=drain_s)
    while (message := json.loads(lines.readline()))["type"] != "bye":
        if message["type"] == "cells":
            health = message["batch"]["health"]
            found.rss_mib.append(health["rss_bytes"] / 2**20)
            if health["cap_hits"]:
                found.notes.append(f"{health['cap_hits']:.0f} arrivals not carried out")
        else:
            found.notes.append(str(message))


def _read(run: Path, found: Measured) -> None:
    from chaosflow.load.records import read_records

    rows = [row for file in sorted(run.glob("records-*.gz")) for row in read_records(file)]
    good = [r for r in rows if r["outcome"] == "ok"]
    found.rows = rows
    found.ttft = [(r["event_us"][0] - r["sent_us"]) / 1e3 for r in good]
    found.gap = [(b - a) / 1e3 for r in good for a, b in zip(r["event_us"], r["event_us"][1:], strict=False)]
    found.lag = [(r["fire_us"] - r["sched_us"]) / 1e3 for r in rows]
    events = sum(len(r["event_us"]) for r in rows)
    intervals = sum(
        a != b
        for r in rows
        if "event_low_us" in r
        for a, b in zip(r["event_us"], r["event_low_us"], strict=True)
    )
    if good:
        span_us = max(r["end_us"] for r in good) - min(r["fire_us"] for r in good)
        found.tokens_per_s = events / (span_us / 1e6)
        found.interval_share = intervals / max(1, events)


def closed(streams: int, rounds: int, tokens: int = 64) -> dict[str, Any]:
    return {
        "arrival": {"kind": "closed", "users": streams},
        "max_requests": streams * rounds,
        "output_tokens": tokens,
    }


def other_client(program: str, port: int, streams: int, number: int) -> Measured:
    """``raw_client.py`` (``number`` = requests) or ``plain_locust.py`` (``number`` = rounds)."""
    command = [sys.executable, str(HERE / program), str(port), str(streams), str(number)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    take_precedence(process.pid)
    assert process.stdout is not None
    found = json.loads(process.stdout.read().splitlines()[-1])
    process.wait()
    return Measured(found["ttft"], found["gap"], [], found["tokens_per_s"], found["cpu_s"])
