"""The report of a day: how large, how fast written, how fast interactive in Chromium.

    python bench/bench_report.py             # a day of series, stretched from an hour of cells
    CHAOSFLOW_BENCH_LONG=1 …                 # every second of the day built from its cells

All of it is made up, and goes through the real code: cells are merged second by second, the series and the heat maps
built as in a run, result.json, report.html and junit.xml written. Rivals on the same question: guidellm's report of a
run was 185 MB (guidellm 984), pytest-html's 119 MB (pytest-html 552).
"""

from __future__ import annotations

import math
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from chromium_clock import value_when_set

from chaosflow.core.histogram import Histogram
from chaosflow.core.result import (
    Event,
    FaultResult,
    ProbeSeries,
    Quantiles,
    RecoveryResult,
    RunResult,
    SegmentResult,
    WorstRequest,
)
from chaosflow.core.slots import CellBatch, CellStore, Count
from chaosflow.orchestrator.series import SeriesBuilder
from chaosflow.reports.writer import write_all

LONG = bool(os.environ.get("CHAOSFLOW_BENCH_LONG"))
DAY_S = 86_400
FAULTS = 300
PROBES = 30
RATE_PER_S, TOKENS = 40, 64


def batch(second: int) -> CellBatch:
    """One second of one worker: some forty requests, some 2,500 gaps, slower while a fault acts."""
    slow = 4.0 if second % 288 < 60 else 1.0
    made = CellBatch("0", second + 1, second * 1_000_000_000)
    for metric, scale_ns, n in (
        ("ttft", 24e6, 40),
        ("gap", 7e6, 200),
        ("e2e", 310e6, 40),
        ("client_lag", 3e5, 40),
    ):
        histogram = Histogram()
        for _ in range(n):
            histogram.add(
                scale_ns * slow * math.exp(random.gauss(0, 0.4)),
                TOKENS * RATE_PER_S // 200 if metric == "gap" else 1,
            )
        made.by_second[second, metric] = histogram
    failed = 1 if random.random() < 0.01 else 0
    made.counts[second, "*"] = Count(
        RATE_PER_S, RATE_PER_S, RATE_PER_S, failed, RATE_PER_S - failed, 2500, 0, 2500, 10
    )
    return made


def build(seconds: int) -> tuple[SeriesBuilder, float]:
    """(the series of so many seconds, ms a second that they cost)."""
    store, builder = CellStore(), SeriesBuilder(0.0)
    spent_s = 0.0
    for second in range(seconds):
        made = batch(second)
        began_s = time.perf_counter()
        store.merge(made)
        builder.extend(store, second - 1, {})
        spent_s += time.perf_counter() - began_s
    return builder, 1e3 * spent_s / seconds


def a_day(builder: SeriesBuilder, built_s: int) -> RunResult:
    """A run of 24 hours with 300 faults; series that cover less of it are stretched."""
    series, stretch = builder.result(), DAY_S / built_s
    series.t_s = [t * stretch for t in series.t_s]
    heat = builder.heat()
    for h in heat:
        h.column_s *= stretch
    apart_s = DAY_S / FAULTS
    faults = [fault(i, i * apart_s + 60) for i in range(FAULTS)]
    t_s = [float(t) for t in range(0, DAY_S, 12)]  # as many as a run keeps
    probes = {
        f"host.series_{i}_percent": ProbeSeries(t_s=t_s, value=[50 + 40 * math.sin(t / 900 + i) for t in t_s])
        for i in range(PROBES)
    }
    return RunResult(
        run_id="day", name="day", state="inconclusive", exit_code=3, reason="made up", started_utc="2026-03-02T00:00:00.000Z",
        ended_utc="2026-03-03T00:00:00.000Z", baseline_utc="2026-03-02T00:00:00.000Z", wall_s=DAY_S, timeline_s=DAY_S, seed=7,
        segments=[segment(f.name, kind, f.planned_inject_s) for f in faults for kind in ("fault", "recovery")],
        faults=faults, series=series, heat=heat, probes=probes, worst=[worst(i) for i in range(10)],
        events=[Event(at_s=f.planned_inject_s, what="inject", text=f"{f.name}: injected and verified") for f in faults for _ in range(4)],
        artifacts={"series": "series.csv.gz"},
    )  # fmt: skip


def fault(number: int, at_s: float) -> FaultResult:
    return FaultResult(
        name=f"jitter-{number}", kind="proxy.latency", params={"delay_ms": 40, "jitter_ms": 15}, rung="fault proxy",
        planned_inject_s=at_s, planned_revert_s=at_s + 60, inject_begin_s=at_s, inject_ack_s=at_s + 0.01,
        revert_begin_s=at_s + 60, revert_ack_s=at_s + 60.01, confirmed=True, reverted=True,
        evidence="44.6 ± 14.9 ms (mean ± sd) on 8817 chunks, 40 ± 8.66 ms asked", revert_evidence="not installed in the proxy",
        recovery=RecoveryResult(measured=True, seconds=1.4, watched_s=60, sentence="recovered 1.4 s after the revert"),
    )  # fmt: skip


def segment(name: str, kind: str, at_s: float) -> SegmentResult:
    q = Quantiles(n=2400, p50_ms=24.1, p95_ms=61.2, p99_ms=88.8, max_ms=130.0)
    begin_s = at_s if kind == "fault" else at_s + 60
    return SegmentResult(
        name=name if kind == "fault" else f"{name}.recovery", kind=kind, fault=name, begin_s=begin_s, end_s=begin_s + 60,
        resolved=2400, complete=2400, outcomes={"ok": 2400}, ttft=q, gap=q, e2e=q,
    )  # fmt: skip


def worst(number: int) -> WorstRequest:
    return WorstRequest(
        j=number, sched_s=100.0, segment="jitter-1", outcome="ok", tokens=400, e2e_ms=4100.0,
        events_ms=[10.0 * i for i in range(400)],
    )  # fmt: skip


def interactive(report: Path) -> str:
    """From navigation to all charts drawn, by the page's own clock, the best of three, and the CPU that it took."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return "no chromium"
    asked = "document.documentElement.dataset.chartsMs"
    found = [pair for _ in range(3) if (pair := value_when_set(chromium, report, asked)) is not None]
    if not found:
        return "never"
    ms, cpu_s = min(found, key=lambda pair: float(pair[0]))
    return f"{float(ms) / 1e3:.2f} s (CPU alone {cpu_s:.2f} s)"


def main() -> None:
    random.seed(7)
    built_s = DAY_S if LONG else 3600
    builder, cost_ms = build(built_s)
    result = a_day(builder, built_s)
    with tempfile.TemporaryDirectory() as folder:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        write_all(result, Path(folder))
        written_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        report = Path(folder) / "report.html"
        page = report.read_text()
        data = re.search(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
        json_mb = (Path(folder) / "result.json").stat().st_size / 1e6
        ready = interactive(report)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = (
        (
            "report.html",
            f"{len(page.encode()) / 1e6:.2f} MB",
            "<= 2 MB (guidellm 984: 185 MB, pytest-html 552: 119 MB)",
        ),
        ("chart data in it", f"{len(data[1].encode()) / 1e3 if data else 0:.0f} kB", "<= 600 kB"),
        ("result.json", f"{json_mb:.1f} MB", ""),
        ("all reports written in", f"{written_s:.1f} s (CPU alone {cpu_s:.1f} s)", "<= 5 s"),
        (
            "interactive in Chromium",
            ready,
            "<= 2 s",
        ),
        ("series and heat, a second of run", f"{cost_ms:.2f} ms", "as the run goes on"),
        ("peak memory of this bench", f"{peak_mb:.0f} MB", "with Bokeh"),
    )
    sys.stdout.write(f"24 h, {FAULTS} faults, {PROBES} probe series, from {built_s:,} s of cells\n")
    for name, value, aim in rows:
        sys.stdout.write(f"  {name:34} {value:>26}   {aim}\n")


if __name__ == "__main__":
    main()
