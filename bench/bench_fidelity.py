"""How true are the times that the load reports? Against a server that keeps, and records, an exact schedule.

Prints, for 1, 16, 64 and 256 streams: error of the mean and of the P99 of TTFT (from t_sent) and of the P99 of
the gap, for ChaosFlow's load and for a plain Locust HttpUser with a hand-written SSE loop, in the same run.
Usage: bench_fidelity.py [STREAMS …]
"""

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
from pathlib import Path
from typing import Any, NamedTuple

TTFT_MS, GAP_MS, TOKENS = 50, 10, 64
ROUNDS = 6
STREAM_S = (TTFT_MS + GAP_MS * TOKENS) / 1000


class Times(NamedTuple):
    """Milliseconds, all requests of one run."""

    ttft: list[float]
    gap: list[float]
    note: str = ""


def build(folder: Path) -> Path:
    out = folder / "truth_sse"
    subprocess.run(["cc", "-O2", "-w", "-o", out, Path(__file__).with_name("truth_sse.c"), "-lm"], check=True)
    return out


def take_precedence(pid: int) -> None:
    """Server and rival get the priority that ChaosFlow's workers take: the machine's other work hits neither."""
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, pid, -10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        port: int = s.getsockname()[1]
        return port


@contextmanager
def truth_server(binary: Path) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([binary, str(port), str(TTFT_MS), str(GAP_MS), str(TOKENS), "r"])
    take_precedence(process.pid)
    try:
        for _ in range(200):
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


def chaosflow(port: int, streams: int, folder: Path) -> Times:
    """The real load process, closed loop, as the orchestrator runs it."""
    from chaosflow.load.records import read_records

    run = Path(tempfile.mkdtemp(dir=folder))
    order = {
        "run_id": "bench",
        "url": f"http://127.0.0.1:{port}/v1",
        "model": "tiny",
        "plan": {
            "arrival": {"kind": "closed", "users": streams},
            "max_requests": streams * ROUNDS,
            "prompt_tokens": 8,
            "output_tokens": TOKENS,
        },
        "seed": 1,
        "objectives": ["ttft.p99 <= 200ms", "gap.p99 <= 100ms"],
        "fault_names": [],
        "records_dir": str(run),
    }
    (run / "order.json").write_text(json.dumps(order))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / "s"))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "chaosflow.load", str(run / "order.json"), str(run / "s")]
        )
        link, _ = listener.accept()
        with link, link.makefile("rwb") as lines:
            _converse(lines, ROUNDS * STREAM_S + 1)
        process.wait(20)
    rows = list(read_records(run / "records-0.jsonl.gz"))
    assert len(rows) == streams * ROUNDS, f"{len(rows)} of {streams * ROUNDS}"
    assert all(r["outcome"] == "ok" for r in rows)
    events = sum(len(r["event_us"]) for r in rows)
    intervals = sum(
        a != b
        for r in rows
        if "event_low_us" in r
        for a, b in zip(r["event_us"], r["event_low_us"], strict=True)
    )
    return Times(
        [(r["event_us"][0] - r["sent_us"]) / 1e3 for r in rows],
        [(b - a) / 1e3 for r in rows for a, b in zip(r["event_us"], r["event_us"][1:], strict=False)],
        f"{intervals / events:.2%} of events known as intervals",
    )


def _converse(lines: Any, seconds: float) -> None:
    def send(**message: object) -> None:
        lines.write(json.dumps(message).encode() + b"\n")
        lines.flush()

    assert json.loads(lines.readline())["type"] == "ready"
    t0_ns = time.monotonic_ns()
    send(type="start", t0_ns=t0_ns)
    send(type="stop", at_ns=t0_ns + round(seconds * 1e9), drain_s=5)
    while json.loads(lines.readline())["type"] != "bye":
        pass


def rival(port: int, streams: int, folder: Path) -> Times:
    command = [sys.executable, __file__, "--rival", str(port), str(streams)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout.splitlines()[-1])
    return Times(found["ttft"], found["gap"])


def run_rival(port: int, streams: int) -> None:
    """A Locust HttpUser as people write it: requests, stream=True, iter_lines, perf_counter."""
    take_precedence(0)
    import gevent
    from locust import HttpUser, task
    from locust.env import Environment
    from locust.exception import StopUser

    ttft: list[float] = []
    gap: list[float] = []

    class SseUser(HttpUser):
        host = f"http://127.0.0.1:{port}"
        done = 0

        @task
        def ask(self) -> None:
            if self.done >= ROUNDS:
                raise StopUser
            self.done += 1
            body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            began = last = time.perf_counter()
            first = True
            with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True) as r:
                for line in r.iter_lines():
                    if not line.startswith(b"data: {"):
                        continue
                    choices = json.loads(line[6:])["choices"]
                    if not choices or not choices[0]["delta"].get("content"):
                        continue
                    now = time.perf_counter()
                    (ttft if first else gap).append((now - (began if first else last)) * 1e3)
                    first, last = False, now
                r.success()

    environment = Environment(user_classes=[SseUser])
    runner = environment.create_local_runner()
    runner.start(streams, spawn_rate=streams)
    while len(ttft) < streams * ROUNDS or runner.user_count:
        gevent.sleep(0.1)
    print(json.dumps({"ttft": ttft, "gap": gap}))


def p99(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main(all_streams: list[int]) -> None:
    print(f"truth: first token after {TTFT_MS} ms, then {TOKENS - 1} every {GAP_MS} ms; {ROUNDS} rounds; ms")
    print(f"{'streams':>7}  {'client':<22}{'TTFT mean err':>14}{'TTFT P99 err':>14}{'gap P99 err':>13}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary = build(folder)
        for streams in all_streams:
            for label, client in (("chaosflow", chaosflow), ("Locust HttpUser + SSE", rival)):
                with truth_server(binary) as port:
                    times = client(port, streams, folder)
                    true = json.loads(get(port, "/stats"))
                print(
                    f"{streams:>7}  {label:<22}{mean(times.ttft) - true['ttft_ms']['mean']:>+14.2f}"
                    f"{p99(times.ttft) - true['ttft_ms']['p99']:>+14.2f}"
                    f"{p99(times.gap) - true['itl_ms']['p99']:>+13.2f}  {times.note}",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rival"]:
        run_rival(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main([int(a) for a in sys.argv[1:]] or [1, 16, 64, 256])
