"""False alarms on healthy runs: the exact rule beside "P99 over the limit in any 60 s window".

Run: python bench/bench_verdicts.py [runs]. A run is 30 minutes at 5 requests/s with 0.5 % of
requests over the limit of a p99 objective: healthy. The rival rule slides by one second and alarms
when the window's nearest-rank P99 is over the limit.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chaosflow.core.slo import State
from chaosflow.core.slots import Cell
from chaosflow.sla.exact import decide
from chaosflow.sla.spans import Seconds, tumbling

P0 = 0.01
SECONDS, SEGMENTS, WINDOW_S = 1800, 6, 60


def naive_alarm(n: np.ndarray, k: np.ndarray) -> bool:
    """Whether any sliding window's nearest-rank P99 is over the limit: more than n - ceil(0.99 n) exceed."""
    window_n = np.convolve(n, np.ones(WINDOW_S, dtype=int), "valid")
    window_k = np.convolve(k, np.ones(WINDOW_S, dtype=int), "valid")
    return bool(np.any((window_n > 0) & (window_k > window_n - np.ceil((1 - P0) * window_n))))


def states(n: np.ndarray, k: np.ndarray) -> list[State]:
    """The exact rule in each of the run's segments."""
    length = SECONDS // SEGMENTS
    found = []
    for begin in range(0, SECONDS, length):
        part = range(begin, begin + length)
        blocks = [(s, Cell(int(n[s]), *(int(k[s]),) * 4)) for s in part]
        windows = tumbling(blocks, Seconds(begin, begin + length), WINDOW_S)
        found.append(decide(blocks, P0, 0.05 / SEGMENTS, windows).state)
    return found


def measure(name: str, runs: int, rate: float, share: float, burst: float) -> None:
    """One row: ``burst`` = share of a burst second's requests that exceed (0 = independent)."""
    rng = np.random.default_rng(5)
    naive = fails = passes = 0
    begin = time.perf_counter()
    for _ in range(runs):
        n = rng.poisson(rate, SECONDS)
        each = np.where(rng.random(SECONDS) < share / burst, burst, 0.0) if burst else np.full(SECONDS, share)
        k = rng.binomial(n, each)
        naive += naive_alarm(n, k)
        found = states(n, k)
        fails += State.FAIL in found
        passes += all(s is State.PASS for s in found)
    spent_ms = (time.perf_counter() - begin) / runs * 1e3
    print(f"{name:<44} {naive / runs:>8.1%} {fails / runs:>8.1%} {passes / runs:>8.1%} {spent_ms:>7.1f}")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{runs} runs of 30 min, p99 objective, {SEGMENTS} segments")
    print(f"{'':<44} {'naive':>8} {'ours':>8} {'ours':>8} {'ms a':>7}")
    print(f"{'traffic':<44} {'alarm':>8} {'fail':>8} {'pass':>8} {'run':>7}")
    measure("healthy: 5/s, 0.5 % over", runs, 5, 0.005, 0)
    measure("healthy: 20/s, 0.3 % over", runs, 20, 0.003, 0)
    measure("just healthy: 20/s, 1 % over", runs, 20, 0.01, 0)
    measure("just healthy: 20/s, 1 % over, in 1 s bursts", runs, 20, 0.01, 0.5)
    measure("unhealthy: 5/s, 3 % over", runs, 5, 0.03, 0)
    measure("unhealthy: 20/s, 2 % over", runs, 20, 0.02, 0)


if __name__ == "__main__":
    main()
