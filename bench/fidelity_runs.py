"""Real runs of ``chaosflow run`` without faults, watched from outside: memory, and a worker that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

EVERY_S = 10.0
Series = list[tuple[float, float]]
"""(seconds since the start, resident MiB)."""


@dataclass(slots=True)
class Watched:
    """One run: the memory of its parts over time, and how it ended."""

    sizes: dict[str, Series] = field(default_factory=dict)
    state: str = ""
    requests: int = 0


def start(
    url: str, rate_per_s: float, seconds: float, folder: Path, workers: int = 1
) -> subprocess.Popen[bytes]:
    """A run without faults against ``url``."""
    scenario = {
        "version": 1,
        "name": "watched",
        "target": {"url": url, "model": "tiny"},
        "load": {
            "arrival": {"kind": "poisson", "rate_per_s": rate_per_s},
            "prompt_tokens": 32,
            "output_tokens": 16,
            "workers": workers,
        },
        "phases": {"warmup": "1s", "baseline": f"{seconds:g}s", "recovery": "1s"},
        "faults": [],
        "probes": ["host"],
        "sla": {"objectives": ["ttft.p99 <= 500ms", "gap.p99 <= 500ms", "error_rate <= 1%"]},
    }
    path = folder / "watched.yaml"
    path.write_text(json.dumps(scenario))  # JSON is YAML
    options = ["--plain", "--runs-dir", str(folder / "runs")]
    return subprocess.Popen(
        [sys.executable, "-m", "chaosflow", "run", str(path), *options],
        env={**os.environ, "CHAOSFLOW_STATE_DIR": str(folder / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def watched_run(url: str, rate_per_s: float, seconds: float, folder: Path) -> Watched:
    """Memory of every part of one run, sampled every 10 s."""
    process, begun_s, found = start(url, rate_per_s, seconds, folder), time.monotonic(), Watched()
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(EVERY_S)
        with suppress(psutil.Error):
            _sample(psutil.Process(process.pid), time.monotonic() - begun_s, found.sizes)
    (report,) = folder.glob("runs/*/result.json")
    result = json.loads(report.read_text())
    found.state = f"{result['state']}: {result['reason']}"
    found.requests = sum(segment["resolved"] for segment in result["segments"])
    return found


def kill_a_worker(url: str, after_s: float, folder: Path) -> tuple[float, float, int]:
    """Kill -9 one of two workers so long after both began to send: (seconds until result.json,
    seconds until the run has ended with its report, its exit code)."""
    process = start(url, 50, 60, folder, workers=2)
    while len(list(folder.glob("runs/*/records/records-*.gz"))) < 2:
        time.sleep(0.05)
        assert process.poll() is None, f"the run ended at once with exit code {process.returncode}"
    root = psutil.Process(process.pid)
    workers = [p for p in root.children(recursive=True) if _part(p, root) == "load worker"]
    time.sleep(after_s)
    workers[1].kill()
    killed_s = time.monotonic()
    while process.poll() is None and not list(folder.glob("runs/*/result.json")):
        time.sleep(0.01)
    verdict_s = time.monotonic() - killed_s
    code = process.wait(60)
    return verdict_s, time.monotonic() - killed_s, code


def _sample(root: psutil.Process, at_s: float, sizes: dict[str, Series]) -> None:
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            name = _part(process, root)
            if name:
                sizes.setdefault(name, []).append((at_s, process.memory_info().rss / 2**20))


def _part(process: psutil.Process, root: psutil.Process) -> str:
    if process.pid == root.pid:
        return "orchestrator"
    if process.name().startswith("load-worker"):
        return "load worker"
    return "load master" if process.cmdline()[1:3] == ["-m", "chaosflow.load"] else ""


def at(series: Series, when_s: float) -> float:
    """MiB around a moment: the median of the three nearest samples."""
    nearest = sorted(series, key=lambda sample: abs(sample[0] - when_s))[:3]
    return sorted(mib for _, mib in nearest)[len(nearest) // 2]
