"""Change points in nightly series: false ones, and how soon a real one is found, beside other tools.

Run: python bench/bench_changepoints.py [series]. Null: 60 nights, CV 5 %. Step: 60 nights, then +15 % from
the next one on; looked at after every night, found when a point within 2 nights of it is told. All tools
get the same series and, where they have none of their own, the same least effect of 10 %.

apache-otava (t-test variant of E-divisive, as its command line uses it) and ruptures (PELT with the
Gaussian mean cost, penalty by BIC) live in an environment of their own below build/, made on the first run; without
a network their columns say so. scipy, from there too, checks the rank test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from chaosflow.reports.history.changepoints import find_changes
from chaosflow.reports.history.metrics import matters
from chaosflow.reports.history.ranks import rank_test, student_p

ENVIRONMENT = Path(__file__).parents[1] / "build" / "bench-changepoints"
PACKAGES = ("apache-otava", "ruptures", "scipy")
NIGHTS, LATER, NEAR = 60, 7, 2
CV, STEP, MIN_EFFECT = 0.05, 1.15, 0.1
Finder = Callable[[Sequence[Sequence[float]]], list[list[int]]]
"""Many series -> the change points (first night of the new level) of each."""

RIVALS = r"""
import json, statistics, sys
name, min_effect = sys.argv[1], float(sys.argv[2])
series = json.load(sys.stdin)


def matters(values, cuts):
    edges = [0, *cuts, len(values)]
    levels = [statistics.median(values[a:b]) for a, b in zip(edges, edges[1:])]
    return [c for c, a, b in zip(cuts, levels, levels[1:]) if abs(max(a, b) / min(a, b) - 1) >= min_effect]


def otava(values):
    from otava.analysis import compute_change_points
    found = compute_change_points(values, window_len=30, max_pvalue=0.001, min_magnitude=0.0)
    found = found[0] if isinstance(found, tuple) else found
    return matters(values, sorted(int(c.index) for c in found))


def ruptures(values):
    import numpy as np, ruptures as rpt
    data = np.asarray(values)
    sd = np.median(np.abs(np.diff(data))) / 0.9539
    cuts = rpt.Pelt(model="l2", min_size=3, jump=1).fit(data / sd).predict(pen=2 * np.log(len(data)))
    return matters(values, [int(c) for c in cuts[:-1]])


def scipy(pair):
    from scipy.stats import mannwhitneyu
    return float(mannwhitneyu(pair[1], pair[0], use_continuity=False, method="asymptotic").pvalue)


find = {"otava": otava, "ruptures": ruptures, "scipy": scipy}[name]
print(json.dumps([find(s) for s in series]))
"""


def ours(alpha: float) -> Finder:
    def find(series: Sequence[Sequence[float]]) -> list[list[int]]:
        def large(a: float, b: float) -> bool:
            return matters("e2e_p95_ms", a, b, MIN_EFFECT)

        return [[c.index for c in find_changes(s, alpha=alpha, matters=large)] for s in series]

    return find


def rival(name: str) -> Finder:
    def find(series: Sequence[Sequence[float]]) -> list[list[int]]:
        return list(ask(name, series))

    return find


def ask(name: str, data: object) -> list:  # type: ignore[type-arg]
    """What the other tool says, from its own environment."""
    done = subprocess.run(
        [str(ENVIRONMENT / "bin" / "python"), "-c", RIVALS, name, str(MIN_EFFECT)],
        input=json.dumps(data), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return list(json.loads(done.stdout.splitlines()[-1]))


def make_environment() -> str:
    """Why there are no rivals, or an empty string."""
    python = ENVIRONMENT / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, capture_output=True)
        if not (ENVIRONMENT / ".ready").exists():
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *PACKAGES,
            ]
            subprocess.run(install, check=True, capture_output=True, text=True, timeout=600)
            (ENVIRONMENT / ".ready").touch()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as e:
        return str(getattr(e, "stderr", "") or e).strip().splitlines()[-1]
    return ""


def noise(rng: np.random.Generator, nights: int) -> np.ndarray:
    return 100 * (1 + CV * rng.standard_normal(nights))


def measure(name: str, find: Finder, count: int) -> None:
    rng = np.random.default_rng(11)
    null = [noise(rng, NIGHTS).tolist() for _ in range(count)]
    stepped = []
    for _ in range(count):
        values = noise(rng, NIGHTS + LATER)
        values[NIGHTS:] *= STEP
        stepped.append(values)
    begin = time.perf_counter()
    try:
        false = sum(bool(found) for found in find(null))
        spent_ms = (time.perf_counter() - begin) / count * 1e3
        by = {}
        for nights in (3, 4, 5, 7):
            found = find([v[: NIGHTS + nights].tolist() for v in stepped])
            by[nights] = {i for i, cuts in enumerate(found) if any(abs(c - NIGHTS) <= NEAR for c in cuts)}
    except RuntimeError as e:
        print(f"{name:<38} {e}")
        return
    within = [set.union(*(by[n] for n in by if n <= nights)) for nights in by]
    shares = " ".join(f"{len(w) / count:>7.1%}" for w in within)
    print(f"{name:<38} {false / count:>7.1%} {shares} {spent_ms:>8.1f}")


def check_rank_test(count: int) -> None:
    rng = np.random.default_rng(5)
    pairs = [[rng.integers(0, 30, 200).tolist(), rng.integers(0, 33, 150).tolist()] for _ in range(count)]
    ours_p = []
    for a, b in pairs:
        test = rank_test(np.bincount(a, minlength=40), np.bincount(b, minlength=40))
        ours_p.append(student_p(test.z, float("inf")))
    worst = max(abs(x / y - 1) for x, y in zip(ours_p, ask("scipy", pairs), strict=True))
    print(f"rank test against scipy, {count} tied pairs: p differs by {worst:.1e} of itself at most")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    reason = make_environment() if os.environ.get("CHAOSFLOW_BENCH_RIVALS", "1") != "0" else "not asked for"
    print(f"{count} null and {count} stepped series (+15 %), CV 5 %; least effect 10 %")
    print(f"{'':<38} {'false':>7} {'found within … nights':>31} {'ms a':>8}")
    print(f"{'':<38} {'points':>7} {'3':>7} {'4':>7} {'5':>7} {'7':>7} {'series':>8}")
    measure("ours, one series (alpha 0.01)", ours(0.01), count)
    measure("ours, one of 40 series (alpha 0.00125)", ours(0.00125), count)
    if reason:
        print(f"apache-otava, ruptures, scipy: not there: {reason}")
        return
    measure("apache-otava (p 0.001)", rival("otava"), count)
    measure("ruptures (PELT, l2, BIC)", rival("ruptures"), count)
    check_rank_test(50)


if __name__ == "__main__":
    main()
