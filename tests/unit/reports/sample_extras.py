"""The sample run's heat maps, worst requests, recovery curves and engine steps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from chaosflow.core.result import HeatMap, ProbeSeries, RecoveryCurve, Series, WorstRequest

PARTS = {"embedding": 0.01, "attention": 1.4, "projection": 3.6, "io": 0.4, "scheduling": 0.9}


def heat(metric: str, scale_ms: float, level: Callable[[float], float]) -> HeatMap:
    """A log-normal cloud around a median that follows the faults."""
    edges = [round(scale_ms / 4 * 1.25**i, 4) for i in range(24)]
    columns = []
    for second in range(-5, 108):
        middle = math.log(level(second) * 4) / math.log(1.25)
        columns.append([round(40 * math.exp(-((row + 0.5 - middle) ** 2) / 6)) for row in range(23)])
    return HeatMap(
        metric=metric,
        begin_s=-5.0,
        column_s=1.0,
        edges_ms=edges,
        counts=[list(r) for r in zip(*columns, strict=True)],
    )


def worst() -> list[WorstRequest]:
    """Two that were reset in the pause, eight slow ones in the throttle."""
    found = []
    for i in range(10):
        failed = i < 2
        events = [
            80.0 + 31 * k + (900 if k > 12 else 0) + random.uniform(0, 8) for k in range(14 if failed else 64)
        ]
        found.append(
            WorstRequest(
                j=3800 + i if failed else 3100 + i,
                sched_s=94.6 + i / 40 if failed else 75.0 + i / 40,
                segment="pause" if failed else "gpu-clock-throttle",
                outcome="reset" if failed else "ok",
                error="connection reset by peer" if failed else "",
                tokens=len(events),
                fired_ms=0.3,
                headers_ms=22.0,
                ttft_ms=events[0],
                e2e_ms=events[-1] + (400 if failed else 2),
                max_gap_ms=931.0,
                events_ms=events,
            )
        )
    return found


def curve(seconds: float, watched_s: float) -> RecoveryCurve:
    """Down before the revert, up again ``seconds`` after it."""
    t_s = [float(t) for t in range(-10, int(watched_s))]
    return RecoveryCurve(
        t_s=t_s,
        tokens_per_s=[2500.0 if t < -8 or t >= seconds else 1400.0 for t in t_s],
        ttft_p50_ms=[24.0 if t < -8 or t >= seconds else (None if t == -1 else 96.0) for t in t_s],
        gap_p50_ms=[7.4 if t < -8 or t >= seconds else 30.0 for t in t_s],
        normal_tokens_per_s=2350.0,
        normal_ttft_p50_ms=31.0,
        normal_gap_p50_ms=9.1,
    )


def steps(t_s: list[float], level: Callable[[float], float]) -> dict[str, ProbeSeries]:
    """Five parts of an engine step, as the engine probe tells them."""
    return {
        f"engine.step_{part}_ms": ProbeSeries(t_s=t_s, value=[ms * level(t) for t in t_s])
        for part, ms in PARTS.items()
    }


def with_intervals(series: Series) -> Series:
    """Adds the bounds of every percentile, and none at the 99th of the end-to-end time."""
    for metric in ("ttft", "gap", "e2e"):
        for p in ("p50", "p95", "p99"):
            values: list[float | None] = getattr(series, f"{metric}_{p}_ms")
            bounded = (metric, p) != ("e2e", "p99")
            for side, factor in (("low", 0.9), ("high", 1.12)):
                bounds = [None if v is None or not bounded else v * factor for v in values]
                setattr(series, f"{metric}_{p}_{side}_ms", bounds)
    seconds = len(series.t_s)
    series.error_percent = [7.5 if 95 <= t < 105 else 0.0 for t in series.t_s]
    series.client_lag_p99_ms = [0.62] * seconds
    return series
