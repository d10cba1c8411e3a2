"""How much a run costs beside its own timeline, how punctual its faults are, and how fast a killed one is undone.

    python bench/bench_run.py            # the demo once, ten kills
    CHAOSFLOW_BENCH_LONG=1 …             # a hundred kills, and memory over ten minutes at 50 requests/s

There is no rival's figure to print beside: Chaos Toolkit, Pumba and Toxiproxy leave the fault in place after a kill -9
(pumba 147), and none of them drives load.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from chaosflow.core.host import RUN_VARIABLE

LONG = bool(os.environ.get("CHAOSFLOW_BENCH_LONG"))
KILLS = 100 if LONG else 10


def command(place: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "chaosflow",
        "run",
        *arguments,
        "--plain",
        "--runs-dir",
        str(place / "runs"),
    ]


def environment(place: Path) -> dict[str, str]:
    return {**os.environ, "CHAOSFLOW_STATE_DIR": str(place / "s")}


def newest_result(place: Path) -> dict[str, Any]:
    folder = max((p for p in (place / "runs").iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    data: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return data


def demo(place: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        command(place, "quickstart"), env=environment(place), stdout=subprocess.DEVNULL, check=False
    )
    whole_s = time.monotonic() - began
    result = newest_result(place)
    print(f"demo: exit code {done.returncode}, {result['state']}")
    print(
        f"  timeline {result['timeline_s']:.1f} s, run {result['wall_s']:.1f} s, whole process {whole_s:.1f} s"
    )
    print(f"  overhead of the run {result['wall_s'] - result['timeline_s']:.2f} s (aim: <= 4 s)")


def punctuality(place: Path) -> None:
    """Thirty short faults under load: planned against begun."""
    faults = []
    for i in range(30):
        kind = {"type": "proxy.latency", "params": {"delay_ms": 5}} if i % 2 else {"type": "process.pause"}
        start = {"after": f"f{i - 1}.revert"} if i else {}
        faults.append({"name": f"f{i}", "duration": "300ms", **kind, **start})
    path = place / "punctual.yaml"
    path.write_text(yaml.safe_dump(base("punctual", faults, rate=40)))
    subprocess.run(
        command(place, str(path)),
        env=environment(place),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    late_ms = []
    for fault in newest_result(place)["faults"]:
        for stage in ("inject", "revert"):
            begun = fault[f"{stage}_begin_s"]
            if begun is not None:
                late_ms.append(1e3 * (begun - fault[f"planned_{stage}_s"]))
    late_ms.sort()
    p99 = late_ms[min(len(late_ms) - 1, int(0.99 * len(late_ms)))]
    print(f"punctuality: {len(late_ms)} injections and reverts at 40 requests/s")
    print(
        f"  late by p50 {late_ms[len(late_ms) // 2]:.1f} ms, p99 {p99:.1f} ms, max {late_ms[-1]:.1f} ms (aim: p99 <= 50 ms)"
    )


def base(name: str, faults: list[dict[str, Any]], rate: float) -> dict[str, Any]:
    return {
        "name": name,
        "target": {"engine": {"backend": "sim"}},
        "load": {
            "arrival": {"kind": "constant", "rate_per_s": rate},
            "prompt_tokens": 32,
            "output_tokens": 16,
        },
        "phases": {"warmup": "1s", "baseline": "5s", "recovery": "1s"},
        "faults": faults,
        "probes": [],
        "sla": {"objectives": ["error_rate <= 99%"]},
    }


def leftovers(place: Path) -> list[str]:
    """Journals, processes and cgroups of this place's runs."""
    found = [str(p) for p in (place / "s").glob("*/undo.jsonl")]
    marker = str(place).encode()
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            raw = Path(f"/proc/{process.pid}/environ").read_bytes()
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except (OSError, psutil.Error):
            continue
        if marker in raw and (f"{RUN_VARIABLE}=".encode() in raw or b"chaosflow.watchdog" in line):
            found.append(f"process {process.pid}")
    ids = {p.name for p in (place / "runs").glob("*")}
    mounts = (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*"))
    return found + [str(m / "chaosflow" / i) for m in mounts for i in ids if (m / "chaosflow" / i).exists()]


def kills(place: Path) -> None:
    """kill -9 of the orchestrator at a random instant, until nothing is left."""
    faults = [
        {"name": "delay", "type": "proxy.latency", "duration": "2s", "params": {"delay_ms": 20}},
        {"name": "freeze", "type": "process.pause", "with": "delay", "duration": "1500ms"},
        {
            "name": "clock",
            "type": "gpu.clock",
            "with": "delay",
            "duration": "2s",
            "params": {"target_freq_mhz": 300},
        },
    ]
    path = place / "killed.yaml"
    path.write_text(yaml.safe_dump(base("killed", faults, rate=20)))
    choose, took_s, left_behind = random.Random(1), [], 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            command(place, str(path)),
            env=environment(place),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(choose.uniform(0.3, 12.0))
        process.kill()
        process.wait()
        killed = time.monotonic()
        while leftovers(place) and time.monotonic() - killed < 10:
            time.sleep(0.01)
        took_s.append(time.monotonic() - killed)
        left_behind += bool(leftovers(place))
    took_s.sort()
    print(f"kill -9 at a random instant, {KILLS} times: {left_behind} left anything behind (aim: 0)")
    print(
        f"  nothing left after p50 {took_s[len(took_s) // 2]:.2f} s, max {took_s[-1]:.2f} s (aim: <= 2 s, the second look at 0.5 s included)"
    )


def memory(place: Path) -> None:
    """Resident memory of orchestrator and load over ten minutes at 50 requests/s."""
    scenario = base("memory", [], rate=50)
    scenario["phases"] = {"warmup": "5s", "baseline": "600s", "recovery": "1s"}
    path = place / "memory.yaml"
    path.write_text(yaml.safe_dump(scenario))
    process = subprocess.Popen(command(place, str(path)), env=environment(place), stdout=subprocess.DEVNULL)
    began, sizes = time.monotonic(), {}
    while process.poll() is None and time.monotonic() - began < 595:
        time.sleep(5)
        at_s = time.monotonic() - began
        if at_s < 65:
            continue
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in tree:
            words = " ".join(member.cmdline())
            name = (
                "load" if "chaosflow.load" in words else "orchestrator" if member.pid == process.pid else ""
            )
            if name:
                sizes.setdefault((name, member.pid), []).append(member.memory_info().rss)
    process.wait()
    print("resident memory over ten minutes at 50 requests/s (aim: < 5 % growth after the first minute)")
    for (name, pid), values in sizes.items():
        print(
            f"  {name} {pid}: {values[0] / 2**20:.1f} -> {values[-1] / 2**20:.1f} MiB ({values[-1] / values[0] - 1:+.1%})"
        )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cf-", dir="/tmp") as folder:
        place = Path(folder)
        demo(place)
        punctuality(place)
        kills(place)
        if LONG:
            memory(place)


if __name__ == "__main__":
    main()
