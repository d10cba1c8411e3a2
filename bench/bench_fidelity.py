"""How true are the times that the load reports, and what does it cost? Against a server that keeps, and records,
an exact schedule. Every figure stands beside a plain Locust user's or a raw asyncio client's of the same minute.

    bench_fidelity.py [PART …]     parts: times rivals speed burst cpu rate many lost memory (the last: bench-long only)

The machine's other work disturbs every figure: each is the median of several runs, the best run beside it, and the
load average at the end of each part is printed.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fidelity_rig import (
    Measured,
    build,
    chaosflow,
    closed,
    mean,
    other_client,
    quantile,
    stats,
    truth_server,
)
from fidelity_runs import at, kill_a_worker, watched_run
from rivals import NotInstalled, Reported, aiperf, install, tokenizer

LONG = bool(os.environ.get("CHAOSFLOW_BENCH_LONG"))
MEMORY_S = float(os.environ.get("CHAOSFLOW_BENCH_MEMORY_S", "1800"))
KILLS = int(os.environ.get("CHAOSFLOW_BENCH_KILLS", "20" if LONG else "5"))
REPEATS = int(os.environ.get("CHAOSFLOW_BENCH_REPEATS", "5" if LONG else "3"))
TTFT_MS, GAP_MS, TOKENS = 50, 10, 64
ROUNDS = 6
STREAM_S = (TTFT_MS + GAP_MS * TOKENS) / 1000


def show(what: str, client: str, values: list[float], must: str = "", unit: str = "", note: str = "") -> None:
    """One row: median, best of all runs."""
    best = min(values, key=abs) if unit == "ms" else min(values)
    if unit.startswith("tokens"):
        best = max(values)
    middle = statistics.median(values)
    print(f"{what:<40}{client:<16}{middle:>12,.2f}{best:>12,.2f} {unit:<9} {must:<12} {note}", flush=True)


def times(folder: Path, binary: Path) -> None:
    """Error of the reported times: client minus what the server recorded."""
    for streams, must in ((1, ""), (64, "<= 1"), (256, "<= 3")):
        clients: dict[str, Callable[[int], Measured]] = {
            "chaosflow": lambda port, s=streams: chaosflow(
                port, closed(s, ROUNDS), ROUNDS * STREAM_S + 2, folder
            ),
            "raw asyncio": lambda port, s=streams: other_client("raw_client.py", port, s, s * ROUNDS),
            "plain Locust": lambda port, s=streams: other_client("plain_locust.py", port, s, ROUNDS),
        }
        for name, client in clients.items():
            errors: list[tuple[float, float, float]] = []
            shares, late = [], []
            for _ in range(REPEATS if name == "chaosflow" else 1 if streams == 1 else 2):
                with truth_server(binary, TTFT_MS, GAP_MS, TOKENS) as port:
                    found = client(port)
                    true = stats(port)
                errors.append(
                    (
                        mean(found.ttft) - true["ttft_ms"]["mean"],
                        quantile(found.ttft, 0.99) - true["ttft_ms"]["p99"],
                        quantile(found.gap, 0.99) - true["itl_ms"]["p99"],
                    )
                )
                shares.append(found.interval_share)
                late.append(true["lateness_us"]["p99"] / 1e3)
            ours = name == "chaosflow"
            note = f"{statistics.median(shares):.2%} interval stamps" if ours else ""
            server = f"server itself late by {statistics.median(late):.1f} ms (P99)"
            show(f"TTFT mean error, {streams} streams", name, [e[0] for e in errors], "", "ms", server)
            show(
                f"TTFT P99 error, {streams} streams", name, [e[1] for e in errors], must if ours else "", "ms"
            )
            gap_must = "<= 1" if ours and streams == 256 else ""
            show(f"gap P99 error, {streams} streams", name, [e[2] for e in errors], gap_must, "ms", note)


def rivals(folder: Path, binary: Path) -> None:
    """AIPerf, a plain Locust user and ChaosFlow, one after the other: TTFT as each reports it, minus the truth."""
    try:
        program, model = install(), tokenizer(folder)
    except NotInstalled as e:
        print(f"AIPerf cannot be installed here: {e}", flush=True)
        return
    for streams in (64, 256):
        wanted = streams * ROUNDS
        for tool in ("AIPerf", "plain Locust", "chaosflow"):
            with truth_server(binary, TTFT_MS, GAP_MS, TOKENS) as port:
                if tool == "AIPerf":
                    try:
                        said = aiperf(program, model, port, streams, wanted, folder / f"aiperf-{streams}")
                    except NotInstalled as e:
                        print(f"AIPerf does not run here: {e}", flush=True)
                        continue
                else:
                    found = (
                        chaosflow(port, closed(streams, ROUNDS), ROUNDS * STREAM_S + 2, folder)
                        if tool == "chaosflow"
                        else other_client("plain_locust.py", port, streams, ROUNDS)
                    )
                    said = Reported(mean(found.ttft), quantile(found.ttft, 0.99), found.cpu_s)
                true = stats(port)["ttft_ms"]
            note = f"{said.cpu_s:.1f} CPU s"
            show(f"TTFT mean error, {streams} streams", tool, [said.ttft_mean - true["mean"]], "", "ms", note)
            show(f"TTFT P99 error, {streams} streams", tool, [said.ttft_p99 - true["p99"]], "", "ms")


def speed(folder: Path, binary: Path) -> None:
    """One event a packet, as fast as the server sends them: 64 streams with a token each ms."""
    ratios, costs = [], []
    rates: dict[str, list[float]] = {"chaosflow": [], "raw asyncio": []}
    for _ in range(REPEATS):
        used = {}
        for name in rates:
            with truth_server(binary, 5, 1, 500) as port:
                if name == "chaosflow":
                    found = chaosflow(port, closed(64, 4, 500), 30, folder)
                    idle = chaosflow(port, closed(1, 1, 1), 1, folder).cpu_s
                    used[name] = found.cpu_s - idle  # without Python's and Locust's start
                else:
                    found = other_client("raw_client.py", port, 64, 64 * 4)
                    used[name] = found.cpu_s
            rates[name].append(found.tokens_per_s)
        ratios.append(rates["chaosflow"][-1] / rates["raw asyncio"][-1])
        costs.append(used["chaosflow"] / used["raw asyncio"])
    for name, values in rates.items():
        show("one event a packet", name, values, unit="tokens/s")
    show("  as part of raw asyncio", "chaosflow", ratios, ">= 0.9", "tokens x")
    show("  CPU, as multiple of raw asyncio", "chaosflow", costs, "<= 1.5", "x")


def burst(folder: Path, binary: Path) -> None:
    """The parser's rate: each answer is one burst of 64 events."""
    runs: dict[str, Callable[[int], Measured]] = {
        "chaosflow": lambda port: chaosflow(port, closed(64, 150), 60, folder),
        "raw asyncio": lambda port: other_client("raw_client.py", port, 64, 64 * 150),
        "plain Locust": lambda port: other_client("plain_locust.py", port, 64, 60),
    }
    for name, client in runs.items():
        rates = []
        for _ in range(REPEATS):
            with truth_server(binary, 0, 0, TOKENS) as port:
                rates.append(client(port).tokens_per_s)
        show(
            "64 events in one burst, 64 streams",
            name,
            rates,
            ">= 100,000" if name == "chaosflow" else "",
            "tokens/s",
        )
    rates = [parser_rate() for _ in range(REPEATS)]
    show("  parsing alone, no sockets", "chaosflow", rates, ">= 100,000", "tokens/s")


def parser_rate() -> float:
    """Tokens by CPU second of HTTP, event stream and JSON parsing of recorded bursts."""
    import time

    from chaosflow.core.sample import RequestRecord
    from chaosflow.load.exchange import Exchange

    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,"delta":{"content":" tok%02d"},"finish_reason":null}]}\n\n'
    events = [event % (n % 100) for n in range(64)]
    stream = head + b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in events)
    stream += b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    begun_s = time.process_time()
    for number in range(1000):
        exchange = Exchange(RequestRecord(number, 0), lambda: None)
        exchange.feed(stream, 2, 1, one_segment=False)
        exchange.release()
    return 64_000 / (time.process_time() - begun_s)


def cpu(folder: Path, binary: Path) -> None:
    """3,072 requests of 64 tokens at 256 streams, from the start of the processes to their end."""
    for name in ("chaosflow", "plain Locust", "raw asyncio"):
        used = []
        for _ in range(REPEATS):
            with truth_server(binary, TTFT_MS, GAP_MS, TOKENS) as port:
                if name == "chaosflow":
                    found = chaosflow(port, closed(256, 12), 12 * STREAM_S + 3, folder)
                    assert [r["outcome"] for r in found.rows] == ["ok"] * 3072
                elif name == "plain Locust":
                    found = other_client("plain_locust.py", port, 256, 12)
                else:
                    found = other_client("raw_client.py", port, 256, 3072)
            used.append(found.cpu_s)
        show("3,072 requests at 256 streams", name, used, "<= 6" if name == "chaosflow" else "", "CPU s")


def rate(folder: Path, binary: Path) -> None:
    """Constant arrivals, one token each."""
    plan = {"arrival": {"kind": "constant", "rate_per_s": 2000}, "output_tokens": 1, "prompt_tokens": 1}
    late, missing = [], []
    for _ in range(REPEATS):
        with truth_server(binary, 0, 0, 1) as port:
            found = chaosflow(port, plan, 20, folder)
        late.append(quantile(found.lag, 0.99))
        missing.append(abs(sum(r["outcome"] == "ok" for r in found.rows) - 40_000) / 400)
    show("2,000/s for 20 s: not delivered", "chaosflow", missing, "<= 0.5", "%")
    show("2,000/s for 20 s: lateness P99", "chaosflow", late, "<= 2", "ms", "a segment beyond is invalid")


def many(folder: Path, binary: Path) -> None:
    """1,000 streams held for a minute by one worker: 10,000 tokens/s."""
    with truth_server(binary, TTFT_MS, 100, 600) as port:
        found = chaosflow(port, {**closed(1000, 1, 600), "deadline": 120}, 65, folder, drain_s=30)
        true = stats(port)
    lost = sum(r["outcome"] != "ok" or r["tokens"] != 600 for r in found.rows) + 1000 - len(found.rows)
    show("1,000 streams for 60 s: lost", "chaosflow", [float(lost)], "0", "streams")
    show("1,000 streams for 60 s: lag P99", "chaosflow", [quantile(found.lag, 0.99)], "shown", "ms")
    error = quantile(found.gap, 0.99) - true["itl_ms"]["p99"]
    note = f"{found.interval_share:.2%} interval stamps"
    show("1,000 streams for 60 s: gap P99 error", "chaosflow", [error], "", "ms", note)


def lost(folder: Path, binary: Path) -> None:
    """kill -9 of one of two workers, until the verdict ``invalid`` is written (exit code 4), and the report too."""
    choose, verdict_s, end_s = random.Random(1), [], []
    with truth_server(binary, 20, 5, 16) as port:
        for number in range(KILLS):
            place = folder / f"killed-{number}"
            place.mkdir()
            *took_s, code = kill_a_worker(f"http://127.0.0.1:{port}/v1", choose.uniform(0.5, 4.0), place)
            assert code == 4, f"exit code {code}"
            verdict_s.append(took_s[0])
            end_s.append(took_s[1])
    note = f"median {statistics.median(verdict_s):.2f} s; with its report {statistics.median(end_s):.2f}, at most {max(end_s):.2f} s"
    show(f"{KILLS} workers killed: until invalid", "chaosflow", [max(verdict_s)], "<= 5", "s at most", note)


def memory(folder: Path, binary: Path) -> None:
    """Half an hour at 100 requests/s: orchestrator, load master and load worker."""
    with truth_server(binary, 20, 5, 16) as port:
        found = watched_run(f"http://127.0.0.1:{port}/v1", 100, MEMORY_S, folder)
    moments_s = [MEMORY_S * share for share in (1 / 30, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 1)]
    for name, series in found.sizes.items():
        mib = [at(series, moment_s) for moment_s in moments_s]
        over_time = " ".join(f"{m / 60:g}:{v:.1f}" for m, v in zip(moments_s, mib, strict=True))
        growth = 100 * (mib[-1] / mib[0] - 1)
        show(
            f"{MEMORY_S / 60:g} min at 100/s: {name}",
            "chaosflow",
            [growth],
            "<= 5",
            "% more",
            f"min:MiB {over_time}",
        )
    print(f"  (memory: {found.requests} requests, verdict {found.state})")


PARTS = {f.__name__: f for f in (times, rivals, speed, burst, cpu, rate, many, lost)} | (
    {"memory": memory} if LONG else {}
)


def main(parts: list[str]) -> None:
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    print(f"{'':<40}{'':<16}{'median':>12}{'best':>12} {'':<9} must")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary = build(folder)
        for part in parts or PARTS:
            PARTS[part](folder, binary)
            print(f"  ({part}: load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
