"""The metrics by name: base units, ``_total`` for counters, no label whose values grow with the runs."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

import chaosflow
from chaosflow.orchestrator.metrics.snapshot import (
    BOUNDS_S,
    OBJECTIVE_STATES,
    PHASES,
    RUN_STATES,
    Buckets,
    Snapshot,
)

_HISTOGRAMS = {
    "ttft": "Time to first token of requests that succeeded, from their scheduled start.",
    "gap": "Time between successive content events of one stream.",
    "e2e": "Time to the end of requests that succeeded, from their scheduled start.",
    "client_lag": "How late the load generator itself began requests; above its budget a verdict is invalid.",
}
_QUANTILES = ("0.5", "0.95", "0.99")


def families(now: Snapshot) -> Iterator[Metric]:
    """Every metric of one moment. Before the first run only build information and counters at 0."""
    yield _info("chaosflow_build", "The version that is running.", version=chaosflow.__version__, python=platform.python_version())  # fmt: skip
    yield from _run(now)
    yield from _faults(now)
    yield from _load(now)
    yield from _latency(now)
    yield from _objectives(now)
    yield from _workers(now.workers)


def _run(now: Snapshot) -> Iterator[Metric]:
    if now.scenario:
        yield _info("chaosflow_run", "The scenario in progress, or the last one.", scenario=now.scenario)
    yield _one_of("chaosflow_run_state", "1 at the state of the run.", "state", RUN_STATES, now.run_state)
    yield _one_of("chaosflow_phase", "1 at the phase of the run.", "phase", PHASES, now.phase)
    yield _gauge(
        "chaosflow_run_time_seconds", "From the beginning of the baseline; negative before.", now.at_s
    )
    yield _gauge("chaosflow_run_remaining_seconds", "Until the timeline ends.", now.left_s)
    ended = CounterMetricFamily("chaosflow_runs", "Runs of this process that ended.", labels=["state"])
    for state in RUN_STATES[1:]:
        ended.add_metric([state], now.runs.get(state, 0))
    yield ended


def _faults(now: Snapshot) -> Iterator[Metric]:
    labels = ["fault", "kind"]
    active = GaugeMetricFamily(
        "chaosflow_fault_active",
        "1 from the acknowledged injection to the acknowledged revert.",
        labels=labels,
    )
    for pair, acts in now.active.items():
        active.add_metric(pair, float(acts))
    yield active
    injections = CounterMetricFamily(
        "chaosflow_fault_injections", "Injections that were acknowledged.", labels=labels
    )
    for pair, times in now.injections.items():
        injections.add_metric(pair, times)
    yield injections
    yield _gauge(
        "chaosflow_faults_not_undone", "Faults that could not be undone: act by hand.", now.not_undone
    )


def _load(now: Snapshot) -> Iterator[Metric]:
    count = now.count
    yield _counter("chaosflow_requests_scheduled", "Arrivals wanted.", count.scheduled)
    yield _counter("chaosflow_requests_started", "Arrivals carried out.", count.fired)
    yield _split(
        "chaosflow_requests", "Requests that ended.", "result",
        {"ok": count.resolved - count.failed, "failed": count.failed},
    )  # fmt: skip
    yield _counter(
        "chaosflow_requests_complete", "Streams that ended with a true terminal signal and all their tokens.",
        count.complete,
    )  # fmt: skip
    yield _counter("chaosflow_tokens", "Output tokens that arrived, of failed streams too.", count.tokens)
    yield _counter("chaosflow_failed_stream_tokens", "Those of streams that failed.", count.failed_tokens)
    yield _split(
        "chaosflow_events", "Content events, by how well their arrival is known.", "stamp",
        {"exact": count.events - count.interval_events, "interval": count.interval_events},
    )  # fmt: skip
    yield _gauge("chaosflow_requests_in_flight", "Requests under way.", now.in_flight)


def _latency(now: Snapshot) -> Iterator[Metric]:
    for metric, text in _HISTOGRAMS.items():
        bounds = BOUNDS_S[metric]
        found = now.histograms.get(metric, Buckets((0,) * (len(bounds) + 1), 0.0))
        yield _histogram(f"chaosflow_{metric}_seconds", text, bounds, found)
    window = GaugeMetricFamily(
        "chaosflow_window_latency_seconds",
        "Percentiles of successes over the last 10 s, finer than the histograms' buckets.",
        labels=["metric", "quantile"],
    )
    for metric, values in now.window.items():
        for quantile, value_ms in zip(_QUANTILES, values, strict=True):
            if value_ms is not None:
                window.add_metric([metric, quantile], value_ms / 1000)
    yield window


def _objectives(now: Snapshot) -> Iterator[Metric]:
    label = ["objective"]
    state = GaugeMetricFamily(
        "chaosflow_objective_state",
        "1 at how the objective stands: live in the segment in progress, at the end its verdict.",
        labels=["objective", "state"],
    )
    allowed = GaugeMetricFamily(
        "chaosflow_objective_allowed_ratio", "Share of samples that may exceed the limit.", labels=label
    )
    spent = GaugeMetricFamily(
        "chaosflow_error_budget_spent_ratio",
        "Exceedances of this run / those its samples so far allow; above 1 the budget is gone.",
        labels=label,
    )
    for text, gauge in now.objectives.items():
        for word in OBJECTIVE_STATES:
            state.add_metric([text, word], float(word == gauge.state))
        if gauge.allowed_share is None:
            continue
        allowed.add_metric([text], gauge.allowed_share)
        if gauge.samples and gauge.allowed_share:
            spent.add_metric([text], gauge.exceedances / (gauge.samples * gauge.allowed_share))
    samples = CounterMetricFamily(
        "chaosflow_objective_samples", "Samples in the segments it is judged in.", labels=label
    )
    exceedances = CounterMetricFamily(
        "chaosflow_objective_exceedances",
        "Those surely over the limit; a failure counts as over.",
        labels=label,
    )
    for text, (n, k) in now.totals.items():
        samples.add_metric([text], n)
        exceedances.add_metric([text], k)
    yield from (state, allowed, spent, samples, exceedances)


def _workers(workers: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """The worst of all workers: a label per worker would grow with every run."""

    def worst(name: str) -> float:
        return max((gauges.get(name, 0.0) for gauges in workers.values()), default=0.0)

    yield _gauge("chaosflow_load_workers", "Load workers that report.", len(workers))
    yield _gauge(
        "chaosflow_load_loop_lag_seconds",
        "P99 of how late a worker's event loop wakes.",
        worst("loop_lag_p99_s"),
    )
    yield _gauge("chaosflow_load_resident_memory_bytes", "Of the largest worker.", worst("rss_bytes"))
    yield _gauge("chaosflow_load_capped_requests", "Arrivals lost to max_in_flight.", worst("cap_hits"))
    yield _gauge(
        "chaosflow_load_clock_jumps", "Requests during which the wall clock jumped.", worst("clock_jumps")
    )


def _histogram(name: str, text: str, bounds: Sequence[float], found: Buckets) -> HistogramMetricFamily:
    buckets, total = [], 0
    for bound, count in zip((*map(str, bounds), "+Inf"), found.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=found.sum_s)


def _info(name: str, text: str, **labels: str) -> InfoMetricFamily:
    return InfoMetricFamily(name, text, value=labels)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _split(name: str, text: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _one_of(name: str, text: str, label: str, words: Iterable[str], now: str) -> GaugeMetricFamily:
    """One series for each word, so that a rule can wait for any of them; none before the first run."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for word in words if now else ():
        family.add_metric([word], float(word == now))
    return family
