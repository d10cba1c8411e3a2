"""What the fault proxy costs, how true its delays are, and whether toxics lose a byte when they come and go.

Rivals in the same run: a plain relay on asyncio (and on uvloop, where it is installed), nginx as a stream relay
(HAProxy too, where it is installed). Each relay has core 0 to itself, both ends of the traffic have core 1 (on machines with two).
Usage: bench_proxy.py [cost] [delays] [cycles]
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
NGINX = HERE.parent / "build/nginx"
"""Where .ci/system-packages puts it."""
LONG = bool(os.environ.get("CHAOSFLOW_BENCH_LONG"))
PINGS, PULL_S, ROUNDS = (4000, 4.0, 5) if LONG else (1500, 2.0, 3)
STREAMS, DELAY_S = 64, 20.0 if LONG else 6.0
CYCLES = 1000


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        port: int = s.getsockname()[1]
        return port


def place(core: int) -> list[str]:
    """Command prefix that pins to a core and, as root, takes precedence over the machine's other work."""
    pin = ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []
    return [*pin, *(["chrt", "-r", "1"] if os.geteuid() == 0 and shutil.which("chrt") else [])]


@contextmanager
def running(command: list[str], core: int, *, ready: bool = True) -> Iterator[str]:
    """A child until the block ends; yields its first line."""
    with subprocess.Popen([*place(core), *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline() if ready else ""
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def wait_for(port: int) -> None:
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on {port}")


@contextmanager
def haproxy(upstream: int, folder: Path) -> Iterator[int]:
    port, file = free_port(), folder / "haproxy.cfg"
    file.write_text(
        "global\n nbthread 1\n"
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f"listen relay\n bind 127.0.0.1:{port}\n server one 127.0.0.1:{upstream}\n"
    )
    binary = os.environ.get("HAPROXY") or shutil.which("haproxy") or "/usr/sbin/haproxy"
    with running([binary, "-db", "-q", "-f", str(file)], 0, ready=False):
        wait_for(port)
        yield port


def nginx_binary() -> str:
    """Empty where there is none."""
    places = (NGINX / "nginx", Path("/usr/sbin/nginx"))
    return next((str(place) for place in places if place.exists()), shutil.which("nginx") or "")


@contextmanager
def nginx(upstream: int, folder: Path) -> Iterator[int]:
    port, file = free_port(), folder / "nginx.conf"
    modules = (NGINX / "ngx_stream_module.so", Path("/usr/lib/nginx/modules/ngx_stream_module.so"))
    load = next((f"load_module {module};\n" for module in modules if module.exists()), "")
    file.write_text(
        f"{load}daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log /dev/null;\n"
        f"events {{}}\nstream {{ server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream}; }} }}\n"
    )
    with running([nginx_binary(), "-p", str(folder), "-c", str(file)], 0, ready=False):
        wait_for(port)
        yield port


@contextmanager
def relay(loop: str, upstream: int) -> Iterator[int]:
    port = free_port()
    with running([sys.executable, str(HERE / "plain_relay.py"), loop, str(port), str(upstream)], 0):
        yield port


@contextmanager
def chaosflow(upstream: int, folder: Path) -> Iterator[int]:
    control = folder / "control"
    command = [sys.executable, "-m", "chaosflow.faults.proxy", "--control", str(control), "--seed", "1"]
    with running([*command, "--upstream", f"127.0.0.1:{upstream}"], 0) as line:
        yield int(json.loads(line)["listening"].rpartition(":")[2])


def ask(binary: Path, *words: str) -> list[float]:
    done = subprocess.run([*place(1), str(binary), *words], capture_output=True, text=True, check=True)
    return sorted(float(line) for line in done.stdout.splitlines())


def quantile(values: list[float], q: float) -> float:
    return values[min(len(values) - 1, int(q * len(values)))]


def rivals(upstream: int, folder: Path) -> dict[str, object]:
    found: dict[str, object] = {
        "direct": None,
        "chaosflow proxy": lambda: chaosflow(upstream, folder),
        "plain asyncio relay": lambda: relay("asyncio", upstream),
    }
    if importlib.util.find_spec("uvloop"):
        found["plain uvloop relay"] = lambda: relay("uvloop", upstream)
    if os.environ.get("HAPROXY") or shutil.which("haproxy") or Path("/usr/sbin/haproxy").exists():
        found["HAProxy (1 thread)"] = lambda: haproxy(upstream, folder)
    if nginx_binary():
        found["nginx stream"] = lambda: nginx(upstream, folder)
    return found


def cost(binary: Path, upstream: int, folder: Path) -> None:
    """Round trips of 160 bytes and a bulk transfer; every rival in turn, several rounds, medians."""
    trips: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, start in rivals(upstream, folder).items():
            if start is None:
                trips.setdefault(name, []).extend(ask(binary, "ping", str(upstream), str(PINGS)))
                rates.setdefault(name, []).extend(ask(binary, "pull", str(upstream), str(PULL_S)))
                continue
            with start() as port:  # type: ignore[operator]
                trips.setdefault(name, []).extend(ask(binary, "ping", str(port), str(PINGS)))
                rates.setdefault(name, []).extend(ask(binary, "pull", str(port), str(PULL_S)))
    print(f"{'':22} {'round trip p50':>15} {'added p50':>10} {'p99':>9} {'throughput':>12}")
    base = statistics.median(trips["direct"])
    for name, values in trips.items():
        p50, p99 = statistics.median(values), quantile(sorted(values), 0.99)
        rate = statistics.median(rates[name]) / 1e6
        added = f"{(p50 - base) / 1e3:7.0f} µs" if name != "direct" else ""
        print(f"{name:22} {p50 / 1e3:12.0f} µs {added:>10} {p99 / 1e3:6.0f} µs {rate:7.0f} MB/s")
    added_us = (statistics.median(trips["chaosflow proxy"]) - base) / 1e3
    plain = "plain uvloop relay" if "plain uvloop relay" in rates else "plain asyncio relay"
    share = statistics.median(rates["chaosflow proxy"]) / statistics.median(rates[plain])
    print(
        f"added to a round trip (two passages): {added_us:.0f} µs, so {added_us / 2:.0f} µs each way; limit 150 µs"
    )
    print(f"throughput: {share:.0%} of the {plain}; limit 60 %")


def delays(binary: Path, upstream: int, folder: Path) -> None:
    """Error of the delay of every message of 64 streams, each sending its clock every 20 ms."""
    import asyncio

    from chaosflow.faults.proxy import client

    print(
        f"{'delay asked':>12} {'messages':>9} {'error p50':>10} {'p99':>9} {'max':>9}   ({STREAMS} streams)"
    )
    with chaosflow(upstream, folder) as port:
        control = str(folder / "control")
        for asked_ms in (0, 5, 50, 500):
            toxic = {
                "type": "latency",
                "name": "t",
                "stream": "downstream",
                "attributes": {"latency": asked_ms},
            }
            asyncio.run(client.add_toxic(control, "target", toxic))
            values = ask(binary, "delays", str(port), str(STREAMS), str(DELAY_S + 1))
            errors = sorted(abs(value / 1e6 - asked_ms) for value in values)
            p50, p99 = quantile(errors, 0.5), quantile(errors, 0.99)
            print(f"{asked_ms:9} ms {len(errors):9} {p50:7.3f} ms {p99:6.3f} ms {errors[-1]:6.3f} ms")
            asyncio.run(client.remove_toxic(control, "target", "t"))
    print("limits: p50 0.5 ms, p99 2 ms at 5, 50 and 500 ms")


def cycles() -> None:
    """Each toxic added and removed a thousand times under load, every byte and every event checked."""
    sys.path.insert(0, str(HERE.parent / "tests" / "integration" / "faults"))
    from cycles import HARMLESS, lost_bytes_of_numbers, lost_events

    print(
        f"{'toxic':18} {'cycles':>7} {'numbers sent':>13} {'lost or moved':>14} {'streams':>8} {'damaged':>8}"
    )
    for kind in HARMLESS:
        sent, right = lost_bytes_of_numbers(kind, CYCLES)
        streams, wrong = lost_events(kind, CYCLES) if kind.startswith("sse_") else ("", "")  # type: ignore[assignment]
        print(f"{kind:18} {CYCLES:7} {sent:13} {'none' if right else 'SOME':>14} {streams:>8} {wrong:>8}")


def main() -> None:
    wanted = sys.argv[1:] or ["cost", "delays", "cycles"]
    with tempfile.TemporaryDirectory(prefix="cfbench-") as name:
        folder, binary, port = Path(name), Path(name) / "peer", free_port()
        subprocess.run(["cc", "-O2", "-pthread", "-o", binary, HERE / "proxy_peer.c"], check=True)
        with running([str(binary), "serve", str(port)], 1):
            if "cost" in wanted:
                cost(binary, port, folder)
            if "delays" in wanted:
                delays(binary, port, folder)
        if "cycles" in wanted:
            cycles()


if __name__ == "__main__":
    main()
