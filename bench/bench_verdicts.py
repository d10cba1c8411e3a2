"""The verdict rule's own figures: false alarms, power, speed, memory.

Run: python bench/bench_verdicts.py [runs]. False alarms stand beside a naive rule that many load tools have:
"the P99 of the last 60 s is over the limit", looked at every second.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from chaosflow.core.grammar import parse_objective
from chaosflow.core.histogram import Histogram
from chaosflow.core.segments import Mark, MarkKind, SegmentMap
from chaosflow.core.slo import State
from chaosflow.core.slots import Blocks, Cell, CellBatch, CellStore, Count
from chaosflow.sla.evidence import Evidence, FaultFact
from chaosflow.sla.exact import decide
from chaosflow.sla.judge import judge
from chaosflow.sla.power import catches_from
from chaosflow.sla.spans import Seconds, tumbling

Ints = npt.NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, float], tuple[Ints, Ints]]
"""(rng, seconds, share of exceedances) -> samples and exceedances of each second."""

P0 = 0.01
SECONDS, SEGMENTS, WINDOW_S = 1800, 6, 60
DAY_S = 86_400


# -- traffic
def independent(rate: float) -> Draw:
    def draw(rng: np.random.Generator, seconds: int, share: float) -> tuple[Ints, Ints]:
        n = rng.poisson(rate, seconds)
        return n, rng.binomial(n, share)

    return draw


def clumped(rate: float, cv: float) -> Draw:
    """Arrivals whose gaps have that coefficient of variation."""

    def draw(rng: np.random.Generator, seconds: int, share: float) -> tuple[Ints, Ints]:
        shape = 1 / cv**2
        at = np.cumsum(rng.gamma(shape, 1 / (rate * shape), int(rate * seconds * 2) + 500))
        n = np.bincount(at[at < seconds].astype(int), minlength=seconds)
        return n, rng.binomial(n, share)

    return draw


def shared_steps(rate: float, length_s: float) -> Draw:
    """Slow engine steps of that length, at any instant, each over the limit for every stream under way."""

    def draw(rng: np.random.Generator, seconds: int, share: float) -> tuple[Ints, Ints]:
        n = rng.poisson(rate, seconds)
        slow = np.zeros(seconds)
        span = seconds + length_s
        for begin in rng.random(rng.poisson(share / length_s * span)) * span - length_s:
            for s in range(max(0, int(begin)), min(seconds, int(begin + length_s) + 1)):
                slow[s] += max(0.0, min(s + 1, begin + length_s) - max(s, begin))
        return n, rng.binomial(n, np.minimum(1.0, slow))

    return draw


# -- rules
def naive_alarm(n: Ints, k: Ints) -> bool:
    """Whether any sliding window's nearest-rank P99 is over the limit: more than n - ceil(0.99 n) exceed."""
    window_n = np.convolve(n, np.ones(WINDOW_S, dtype=int), "valid")
    window_k = np.convolve(k, np.ones(WINDOW_S, dtype=int), "valid")
    return bool(np.any((window_n > 0) & (window_k > window_n - np.ceil((1 - P0) * window_n))))


def state_of(n: Ints, k: Ints, alpha: float, p0: float = P0) -> State:
    blocks = Blocks(np.arange(len(n)), n, k, k, k, k)
    return decide(blocks, p0, alpha, tumbling(blocks, Seconds(0, len(n)), WINDOW_S)).state


def states(n: Ints, k: Ints) -> list[State]:
    """The exact rule in each of the run's segments."""
    length = SECONDS // SEGMENTS
    parts = [slice(begin, begin + length) for begin in range(0, SECONDS, length)]
    return [state_of(n[part], k[part], 0.05 / SEGMENTS) for part in parts]


# -- figures
def false_alarms(runs: int) -> None:
    print(
        f"{runs} runs of 30 min, p99 objective, {SEGMENTS} segments; aim: 'fail' in at most 5 % of healthy runs"
    )
    print(f"{'traffic':<58} {'naive':>7} {'fail':>6} {'pass':>6}")
    rows: list[tuple[str, Draw, float]] = [
        ("healthy: 5/s, 0.5 % over", independent(5), 0.005),
        ("healthy: 5/s in clumps (cv 3), 0.5 % over", clumped(5, 3), 0.005),
        ("healthy: 640 gaps/s, slow steps of 0.3 s, 0.5 % over", shared_steps(640, 0.3), 0.005),
        ("just healthy: 20/s, 1 % over", independent(20), 0.01),
        ("just healthy: 20/s in clumps (cv 3), 1 % over", clumped(20, 3), 0.01),
        ("just healthy: 640 gaps/s, slow steps of 0.05 s, 1 % over", shared_steps(640, 0.05), 0.01),
        ("just healthy: 640 gaps/s, slow steps of 0.3 s, 1 % over", shared_steps(640, 0.3), 0.01),
        ("just healthy: 640 gaps/s, slow steps of 1 s, 1 % over", shared_steps(640, 1.0), 0.01),
        ("just healthy: 640 gaps/s, freezes of 2 s, 1 % over", shared_steps(640, 2.0), 0.01),
        ("(no steps any more: outages of 5 s, 1 % over)", shared_steps(640, 5.0), 0.01),
        ("unhealthy: 5/s, 3 % over", independent(5), 0.03),
        ("unhealthy: 20/s, 2 % over", independent(20), 0.02),
    ]
    for name, draw, share in rows:
        rng = np.random.default_rng(5)
        naive = fails = passes = 0
        for _ in range(runs):
            n, k = draw(rng, SECONDS, share)
            found = states(n, k)
            naive += naive_alarm(n, k)
            fails += State.FAIL in found
            passes += all(s is State.PASS for s in found)
        print(f"{name:<58} {naive / runs:>7.1%} {fails / runs:>6.1%} {passes / runs:>6.1%}", flush=True)


def power(runs: int) -> None:
    print(
        "\n3 times the allowed exceedance, within the length that 'chaosflow plan' names; aim: 'fail' in >= 95 %"
    )
    print(f"{'objective, traffic':<44} {'samples':>8} {'length':>8} {'fail':>6}")
    for q, tests in ((0.99, 9), (0.95, 9), (0.99, 30), (0.95, 1)):
        p0, alpha = round(1 - q, 6), 0.05 / tests
        for name, draw, rate in (
            ("5/s", independent(5), 5.0),
            ("20/s", independent(20), 20.0),
            ("20/s, cv 3", clumped(20, 3), 20.0),
        ):
            needed = catches_from(p0, alpha) or 0
            seconds = math.ceil(needed / rate)
            rng = np.random.default_rng(6)
            fails = sum(state_of(*draw(rng, seconds, 3 * p0), alpha, p0) is State.FAIL for _ in range(runs))
            label = f"p{100 * q:g}, one of {tests} tests, {name}"
            print(f"{label:<44} {needed:>8,} {seconds:>6} s {fails / runs:>6.1%}", flush=True)


def batch_of(second: int, objectives: int, n: int, rng: np.random.Generator) -> CellBatch:
    """What one worker sends for one second: n samples of each objective, and their histograms."""
    batch = CellBatch("0", second + 1, (second + 1) * 10**9)
    for objective in range(objectives):
        batch.cells[second, "baseline", objective] = Cell(n, *(int(rng.binomial(n, 0.002)),) * 4)
    for segment in ("baseline", "*"):
        batch.counts[second, segment] = Count(50, 50, 50, 0, 50, n, 0, n, 0)
    for metric in ("ttft", "gap", "e2e", "client_lag"):
        buckets = {1500 + b: n // 40 for b in range(40)}
        batch.by_second[second, metric] = Histogram(dict(buckets))
        batch.by_segment["baseline", metric] = Histogram(dict(buckets))
    return batch


def ingest() -> None:
    """4 workers x 5,000 samples of each of 6 objectives a second, merged by the checker's process."""
    rng, n, objectives = np.random.default_rng(8), 20_000, 6
    batches = [batch_of(s, objectives, n, rng) for s in range(300)]
    store = CellStore()
    begin = time.process_time()
    for batch in batches:
        store.merge(batch)
    spent = time.process_time() - begin
    print("\nspeed and memory")
    print(
        f"checker, samples merged through cells: {len(batches) * n * objectives / spent / 1e6:,.0f} M/s a core (aim 5)"
    )


def day() -> tuple[CellStore, SegmentMap]:
    """24 hours: 6 objectives, a baseline of 2 h, and faults of 30 min with recoveries of 30 min."""
    segments, store, rng = SegmentMap(), CellStore(), np.random.default_rng(9)
    segments.add(Mark(MarkKind.BASELINE_BEGIN, 0))
    segments.add(Mark(MarkKind.BASELINE_END, 7200 * 10**9))
    spans = [("baseline", 0, 7200)]
    for i, at in enumerate(range(7200, DAY_S, 3600)):
        for kind, when in ((MarkKind.INJECT_BEGIN, at), (MarkKind.INJECT_ACK, at), (MarkKind.REVERT_BEGIN, at + 1800),
                           (MarkKind.REVERT_ACK, at + 1800), (MarkKind.RECOVERY_END, at + 3600)):  # fmt: skip
            segments.add(Mark(kind, when * 10**9, f"f{i}"))
        spans += [(f"f{i}", at, at + 1800), (f"f{i}.recovery", at + 1800, at + 3600)]
    for name, begin, end in spans:
        for second in range(begin, end):
            for objective in range(6):
                store.cells.add((second, name, objective), Cell(50, *(int(rng.random() < 0.1),) * 4))
            for segment in (name, "*"):
                store.counts.add((second, segment), Count(50, 50, 50, 0, 50, 3200, 0, 3200, 0))
            for metric in ("ttft", "gap", "e2e", "client_lag"):
                store.median_s[second, metric] = 0.05 + 0.005 * rng.random()
    return store, segments


def resident_mb() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def whole_day() -> None:
    before = resident_mb()
    store, segments = day()
    filled = resident_mb()
    texts = ["ttft.p95 <= 1s", "e2e.p99 <= 5s", "gap.p99 <= 50ms", "error_rate <= 1%", "goodput >= 99%",
             "stalls <= 1%", "throughput.drift within 15%", "recovery <= 30s"]  # fmt: skip
    evidence = Evidence(
        objectives=tuple(parse_objective(t) for t in texts),
        store=store,
        segments=segments,
        t0_ns=0,
        faults=tuple(FaultFact(f"f{i}", confirmed=True) for i in range(22)),
        rate_per_s=50,
        ended_ns=DAY_S * 10**9,
    )
    begin = time.process_time()
    judge(evidence)
    spent = time.process_time() - begin
    print(f"24 h of cells judged, 8 objectives x 45 segments: {spent:.2f} s of CPU (aim 2)")
    print(f"24 h of cells, counts and medians: {filled - before:.0f} MB; the process at its peak, judging included: "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB (aim 150)")  # fmt: skip


def main() -> None:
    if sys.argv[1:] == ["--day"]:
        whole_day()
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    false_alarms(runs)
    power(runs)
    ingest()
    sys.stdout.flush()
    subprocess.run(
        [sys.executable, __file__, "--day"], check=True
    )  # a process of its own: its memory is a figure


if __name__ == "__main__":
    main()
