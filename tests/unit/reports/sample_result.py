"""A realistic two-minute run with three faults, made of seeded random numbers: what the report tests render."""

from __future__ import annotations

import random
from typing import Any

import sample_extras

from chaosflow.core.result import (
    ClientHealth,
    Event,
    FaultResult,
    ObjectiveResult,
    ProbeSeries,
    Quantiles,
    RecoveryResult,
    RunResult,
    SegmentResult,
    SegmentVerdictResult,
    Series,
)

BASELINE_S = 45.0
FAULTS = (
    ("jitter", "proxy.latency", 45.0, 57.0, {"latency_ms": 40, "jitter_ms": 15, "direction": "downstream"}),
    ("gpu-clock-throttle", "gpu.clock", 70.0, 82.0, {"device_id": 0, "target_freq_mhz": 300}),
    ("pause", "process.pause", 95.0, 95.4, {"scope": "tree"}),
)
RECOVERY_S = 12.0
END_S = 108.0
SEGMENTS = (
    ("baseline", "baseline", "", 0.0, 45.0),
    *(
        segment
        for name, _, begin, end, _ in FAULTS
        for segment in (
            (name, "fault", name, begin, end),
            (f"{name}.recovery", "recovery", name, end, end + RECOVERY_S),
        )
    ),
)


def sample(state: str = "fail", **changes: Any) -> RunResult:
    """The run; ``state`` is ``fail`` (one objective broken), ``pass`` or ``inconclusive``."""
    random.seed(7)
    base: dict[str, Any] = {
        "run_id": "20260302-101500-demo-3f9a",
        "name": "demo",
        "description": "Network jitter, a GPU clock throttle and a short pause, one after the other.",
        "state": state,
        "exit_code": {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}[state],
        "reason": _REASONS[state],
        "started_utc": "2026-03-02T10:15:00.120Z",
        "ended_utc": "2026-03-02T10:16:56.480Z",
        "baseline_utc": "2026-03-02T10:15:06.300Z",
        "wall_s": 116.36,
        "timeline_s": 113.4,
        "seed": 7,
        "command": ["chaosflow", "run", "demo", "--set", "load.arrival.rate_per_s=40"],
        "version": "0.1.0",
        "scenario": _SCENARIO,
        "environment": {
            "chaosflow": "0.1.0",
            "python": "3.11.2",
            "kernel": "Linux 6.1.0-31-amd64",
            "cpu": "AMD EPYC 9454, 2 of 48 cores",
            "memory": "15.6 GiB",
            "gpu": "virtual H200 (roofline), NVML by chaosflow vgpu",
            "privilege": "root",
            "cgroup": "v1",
        },
        "simulated": ["GPU 0 is a virtual H200: gpu.clock acts on a roofline model, not on silicon"],
        "objectives": _objectives(state),
        "segments": [_segment(*s) for s in SEGMENTS],
        "faults": [_fault(*f) for f in FAULTS],
        "series": sample_extras.with_intervals(_series()),
        "probes": _probes(),
        "heat": [
            sample_extras.heat(metric, scale, lambda t: _level(t)[0])
            for metric, scale in (("ttft", 24.0), ("gap", 7.4), ("e2e", 310.0))
        ],
        "worst": sample_extras.worst(),
        "client": ClientHealth(
            workers=1,
            client_lag_p99_ms=0.62,
            interval_share=0.004,
            rss_bytes_max=182_000_000,
            sentence="The load generator kept up: its own lateness was 0.62 ms at P99, no batch was lost.",
        ),
        "events": _events(),
        "notes": ["probe ebpf.tcp left out: bcc is not installed; apt-get install python3-bpfcc"],
        "artifacts": {"records": "records-w0.jsonl.gz", "events": "events.jsonl", "journal": "undo.jsonl"},
        "totals": {"requests": 4320, "tokens": 276_100},
    }
    return RunResult.model_validate(base | changes)


_REASONS = {
    "pass": "All 5 objectives hold in every segment they were judged in.",
    "fail": "e2e.p99 <= 800ms does not hold during gpu-clock-throttle: 431 of 480 requests took longer.",
    "inconclusive": "ttft.p95 <= 200ms could not be decided during pause: needs 41 more requests.",
    "invalid": "pause was not confirmed: 0 of 4 processes were stopped.",
}

_SCENARIO: dict[str, Any] = {
    "version": 1,
    "name": "demo",
    "seed": 7,
    "target": {"engine": {"backend": "sim", "gpu": "h200"}},
    "load": {
        "arrival": {"kind": "poisson", "rate_per_s": 40},
        "prompt_tokens": 256,
        "output_tokens": 64,
        "headers": {"authorization": "«redacted»"},
    },
    "phases": {"warmup": 5.0, "baseline": BASELINE_S, "recovery": RECOVERY_S},
    "faults": [{"name": n, "type": k, "duration": e - b, "params": p} for n, k, b, e, p in FAULTS],
    "sla": {"objectives": ["e2e.p99 <= 800ms", "ttft.p95 <= 200ms", "gap.p99 <= 250ms", "error_rate <= 1%"]},
}


def _objectives(state: str) -> list[ObjectiveResult]:
    e2e = [_quantile_verdict(s, n=480, k=0, limit=0.8, observed=0.61, q=0.99) for s, *_ in SEGMENTS]
    ttft = [_quantile_verdict(s, n=480, k=2, limit=0.2, observed=0.038, q=0.95) for s, *_ in SEGMENTS]
    if state == "fail":
        e2e[3] = SegmentVerdictResult(
            segment="gpu-clock-throttle",
            state="fail",
            n=480,
            k_low=431,
            k_high=431,
            allowed_share=0.01,
            design_effect=1.8,
            limit=0.8,
            observed=2.41,
            low=2.29,
            high=2.55,
            sentence="431 of 480 requests exceeded 800 ms; 1 % are allowed (P < 1e-300, design effect 1.8)",
        )
    if state == "inconclusive":
        ttft[5] = SegmentVerdictResult(
            segment="pause",
            state="inconclusive",
            n=18,
            k_low=0,
            k_high=0,
            allowed_share=0.05,
            limit=0.2,
            observed=0.07,
            low=0.05,
            high=0.19,
            needs_more=41,
            sentence="0 of 18 requests exceeded 200 ms; needs 41 more requests with no further exceedance",
        )
    gap = [
        _quantile_verdict(s, n=30_000, k=9, limit=0.25, observed=0.031, q=0.99, spread=2)
        for s, *_ in SEGMENTS
    ]
    drift = SegmentVerdictResult(
        segment="baseline",
        state="pass",
        sentence="throughput moved by 2.1 % at most between successive windows (15 % allowed)",
        n=15,
        limit=0.15,
        observed=0.021,
        low=-0.04,
        high=0.08,
    )
    recovery = [
        SegmentVerdictResult(
            segment=f"{name}.recovery",
            state="pass",
            sentence=f"recovered {seconds:g} s after the revert",
            n=1,
            limit=30.0,
            observed=seconds,
        )
        for name, seconds in (("jitter", 0.4), ("gpu-clock-throttle", 2.1), ("pause", 1.2))
    ]
    return [
        _objective("e2e.p99 <= 800ms", "e2e", "request_quantile", e2e),
        _objective("ttft.p95 <= 200ms", "ttft", "request_quantile", ttft),
        _objective("gap.p99 <= 250ms", "gap", "event_quantile", gap),
        _objective("throughput.drift within 15% during baseline", "throughput", "drift", [drift]),
        _objective("recovery <= 30s", "recovery", "recovery", recovery),
    ]


_WORST = ("pass", "inconclusive", "fail", "invalid", "error")


def _objective(text: str, metric: str, kind: str, segments: list[SegmentVerdictResult]) -> ObjectiveResult:
    worst = max(segments, key=lambda s: _WORST.index(s.state))
    return ObjectiveResult(
        text=text,
        metric=metric,
        kind=kind,
        state=worst.state,
        sentence=f"{worst.segment}: {worst.sentence}",
        segments=segments,
    )


def _quantile_verdict(
    segment: str, *, n: int, k: int, limit: float, observed: float, q: float, spread: int = 0
) -> SegmentVerdictResult:
    return SegmentVerdictResult(
        segment=segment,
        state="pass",
        sentence=f"{k} of {n} exceeded {limit * 1e3:g} ms; {(1 - q) * 100:g} % are allowed",
        n=n,
        k_low=k,
        k_high=k + spread,
        allowed_share=1 - q,
        design_effect=1.3,
        limit=limit,
        observed=observed,
        low=observed * 0.93,
        high=observed * 1.09,
    )


def _quantiles(scale_ms: float, n: int) -> Quantiles:
    if not n:
        return Quantiles()
    return Quantiles(
        n=n, p50_ms=scale_ms, p95_ms=scale_ms * 1.6, p99_ms=scale_ms * 2.1, max_ms=scale_ms * 3.3
    )


def _segment(name: str, kind: str, fault: str, begin: float, end: float) -> SegmentResult:
    slow = 4.2 if name == "gpu-clock-throttle" else 1.0
    n = round((end - begin) * 40)
    return SegmentResult(
        name=name,
        kind=kind,
        fault=fault,
        begin_s=begin,
        end_s=end,
        scheduled=n,
        fired=n,
        resolved=n,
        failed=3 if name == "pause" else 0,
        complete=n - 3 if name == "pause" else n,
        outcomes={"ok": n - 3, "reset": 3} if name == "pause" else {"ok": n},
        tokens=n * 64,
        tokens_per_s=40 * 64 / (1.1 if slow > 1 else 1.0),
        requests_per_s=40.0,
        ttft=_quantiles(24 * slow, n),
        gap=_quantiles(7.4 * slow, n * 64),
        e2e=_quantiles(310 * slow, n),
        client_lag_p99_ms=0.62,
        interval_share=0.004,
    )


def _fault(name: str, kind: str, begin: float, end: float, params: dict[str, Any]) -> FaultResult:
    evidence = {
        "proxy.latency": "200 echoes through the proxy: +40.3 ms mean, sd 14.7 ms (asked: 40 ± 15)",
        "gpu.clock": "SM clock read back under load: 300 MHz (was 1980 MHz)",
        "process.pause": "4 of 4 processes stopped (state T)",
    }[kind]
    undone = {
        "proxy.latency": "toxic removed; echo back at 0.3 ms",
        "gpu.clock": "SM clock back at 1980 MHz under load",
        "process.pause": "4 of 4 processes running",
    }[kind]
    seconds = {"jitter": 0.4, "gpu-clock-throttle": 2.1, "pause": 1.2}[name]
    return FaultResult(
        name=name,
        kind=kind,
        params=params,
        rung={"gpu.clock": "virtual NVML", "process.pause": "SIGSTOP"}.get(kind, "own proxy"),
        simulated=kind == "gpu.clock",
        planned_inject_s=begin,
        planned_revert_s=end,
        inject_begin_s=begin + 0.004,
        inject_ack_s=begin + 0.021,
        revert_begin_s=end + 0.006,
        revert_ack_s=end + 0.019,
        confirmed=True,
        evidence=evidence,
        reverted=True,
        revert_evidence=undone,
        manual_undo="kill -CONT -- 4211 4212 4213 4214" if kind == "process.pause" else "",
        recovery=RecoveryResult(
            measured=True,
            seconds=seconds,
            watched_s=RECOVERY_S,
            curve=sample_extras.curve(seconds, RECOVERY_S),
            sentence=f"recovered {seconds:g} s after the revert: 3 buckets within the baseline's range",
            requests_lost=3 if name == "pause" else 0,
            time_to_detect_s=1.0 if name != "jitter" else None,
        ),
    )


def _level(t_s: float) -> tuple[float, float, float]:
    """(factor of latency, added ms, factor of tokens/s) at a moment."""
    if 45 <= t_s < 57:
        return 1.0, 55.0, 1.0
    if 70 <= t_s < 83:
        return 4.2, 0.0, 0.9
    if 95 <= t_s < 96:
        return 1.0, 420.0, 0.4
    return 1.0, 0.0, 1.0


def _series(begin_s: int = -5, end_s: int = 108) -> Series:
    series = Series()
    for second in range(begin_s, end_s):
        factor, added, share = _level(second)
        series.t_s.append(float(second))
        for metric, scale in (("ttft", 24.0), ("gap", 7.4), ("e2e", 310.0)):
            plus = added if metric != "gap" else added / 3
            for name, spread in (("p50", 1.0), ("p95", 1.6), ("p99", 2.1)):
                value: float | None = scale * factor * spread * random.uniform(0.94, 1.07) + plus
                if second == begin_s:
                    value = None
                getattr(series, f"{metric}_{name}_ms").append(value)
        series.tokens_per_s.append(2560 * share * random.uniform(0.93, 1.06))
        series.requests_per_s.append(random.gauss(40, 5))
        series.errors_per_s.append(3.0 if second == 95 else 0.0)
        series.in_flight.append(20 * factor * random.uniform(0.9, 1.15))
    return series


def _probes() -> dict[str, ProbeSeries]:
    t_s = [s + 0.35 for s in range(-5, 108)]
    level = [_level(t)[0] for t in t_s]
    return {
        "engine.running_requests": ProbeSeries(
            t_s=t_s, value=[19 * f * random.uniform(0.9, 1.1) for f in level]
        ),
        "engine.waiting_requests": ProbeSeries(t_s=t_s, value=[6.0 if f > 2 else 0.0 for f in level]),
        "gpu0.sm_clock_mhz": ProbeSeries(t_s=t_s, value=[300.0 if f > 2 else 1980.0 for f in level]),
        "host.cpu_percent": ProbeSeries(t_s=t_s, value=[random.uniform(38, 61) for _ in t_s]),
        "host.mem_available_bytes": ProbeSeries(t_s=t_s, value=[9.1e9 for _ in t_s]),
        **sample_extras.steps(t_s, lambda t: _level(t)[0]),
    }


def _events() -> list[Event]:
    events = [
        Event(at_s=-5.0, what="phase", text="warm-up"),
        Event(at_s=0.0, what="phase", text="baseline"),
    ]
    for name, kind, begin, end, _ in FAULTS:
        events += [
            Event(at_s=begin + 0.004, what="inject", text=f"{name} ({kind}): inject begun"),
            Event(at_s=begin + 0.021, what="inject", text=f"{name}: confirmed"),
            Event(at_s=end + 0.019, what="revert", text=f"{name}: reverted and verified"),
        ]
    return [*events, Event(at_s=108.0, what="phase", text="judge")]
