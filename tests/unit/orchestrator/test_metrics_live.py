"""Live metrics: what is told to them, and what a scrape then reads."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chaosflow.core.errors import UsageError
from chaosflow.core.histogram import Histogram
from chaosflow.core.segments import Mark, MarkKind
from chaosflow.core.slo import State
from chaosflow.core.slots import Cell, CellBatch, Count
from chaosflow.orchestrator.metrics.families import families
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.orchestrator.metrics.server import MetricsServer
from chaosflow.orchestrator.metrics.snapshot import BOUNDS_S, PHASES
from chaosflow.orchestrator.prepare import Prepared, prepare
from chaosflow.orchestrator.progress import Frame, ObjectiveNow

TTFT = "ttft.p95 <= 4s"
SETTINGS = ["sla.objectives=[ttft.p95 <= 4s, error_rate <= 5%, recovery <= 10s]"]


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare("quickstart", SETTINGS)


@pytest.fixture
def live(prepared: Prepared) -> LiveMetrics:
    made = LiveMetrics()
    made.begin(prepared.loaded.scenario, prepared.timeline, str)
    return made


def values(live: LiveMetrics) -> dict[str, float]:
    """``name{label=value,…}`` -> value of every sample."""
    found = {}
    for family in families(live.snapshot):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = float(sample.value)
    return found


def batch(seq: int = 1, worker: str = "w", **parts: object) -> CellBatch:
    return CellBatch(worker=worker, seq=seq, watermark_ns=0, **parts)  # type: ignore[arg-type]


def test_a_fault_acts_from_its_acknowledged_injection_to_its_acknowledged_revert(live: LiveMetrics) -> None:
    key = "chaosflow_fault_active{fault=jitter,kind=proxy.latency}"
    seen = []
    for kind in (MarkKind.INJECT_BEGIN, MarkKind.INJECT_ACK, MarkKind.REVERT_BEGIN, MarkKind.REVERT_ACK):
        live.mark(Mark(kind, 1, "jitter"))
        seen.append(values(live)[key])
    assert seen == [0, 1, 1, 0]
    assert values(live)["chaosflow_fault_injections_total{fault=jitter,kind=proxy.latency}"] == 1
    assert values(live)["chaosflow_fault_active{fault=freeze,kind=process.pause}"] == 0, (
        "every fault has a series"
    )


def test_an_irreversible_fault_is_counted_and_never_shown_as_acting(live: LiveMetrics) -> None:
    live.mark(Mark(MarkKind.INJECT_ACK, 1, "freeze", reversible=False))
    found = values(live)
    assert found["chaosflow_fault_active{fault=freeze,kind=process.pause}"] == 0
    assert found["chaosflow_fault_injections_total{fault=freeze,kind=process.pause}"] == 1


def test_histograms_are_cumulative_end_in_inf_and_keep_sum_and_count(live: LiveMetrics) -> None:
    histogram = Histogram()
    for value_s, times in ((0.004, 5), (0.012, 3), (0.4, 2), (90.0, 1)):
        histogram.add(value_s * 1e9, times)
    live.batch(batch(by_second={(0, "ttft"): histogram, (1, "ttft"): histogram}))
    found = values(live)
    bounds = [f"{b}" for b in BOUNDS_S["ttft"]] + ["+Inf"]
    counts = [found[f"chaosflow_ttft_seconds_bucket{{le={b}}}"] for b in bounds]
    assert counts == sorted(counts)
    assert counts[0] == 10
    assert found["chaosflow_ttft_seconds_bucket{le=0.02}"] == 16
    assert found["chaosflow_ttft_seconds_bucket{le=60.0}"] == 20
    assert counts[-1] == found["chaosflow_ttft_seconds_count"] == 22
    assert found["chaosflow_ttft_seconds_sum"] == pytest.approx(2 * (0.02 + 0.036 + 0.8 + 90), rel=0.006)


def test_counters_never_fall(live: LiveMetrics) -> None:
    """A stream that fails takes its tokens back from the good ones; a counter that falls is a restart to Prometheus."""
    live.batch(batch(1, counts={(0, "*"): Count(tokens=100, resolved=4), (0, "baseline"): Count(tokens=999)}))
    before = values(live)
    live.batch(batch(2, counts={(0, "*"): Count(tokens=-40, failed_tokens=40, resolved=1, failed=1)}))
    live.batch(batch(3, counts={(1, "*"): Count(tokens=-5)}))  # a correction by usage
    after = values(live)
    counters = [k for k in before if "_total" in k]
    assert before["chaosflow_tokens_total"] == 100
    assert after["chaosflow_tokens_total"] == 100
    assert after["chaosflow_failed_stream_tokens_total"] == 40
    assert after["chaosflow_requests_total{result=failed}"] == 1
    assert after["chaosflow_requests_total{result=ok}"] == 4
    assert all(after[k] >= before[k] for k in counters)


def test_budget_counts_only_segments_that_the_objective_is_judged_in(live: LiveMetrics) -> None:
    cells = {
        (0, "warmup", 0): Cell(n=50, fail_low=50, fail_high=50),
        (0, "edge", 0): Cell(n=50, fail_low=50, fail_high=50),
        (0, "baseline", 0): Cell(n=100, fail_low=2, fail_high=2),
        (1, "jitter", 0): Cell(n=100, fail_low=13, fail_high=20),
    }
    live.batch(batch(cells=cells))
    found = values(live)
    assert found[f"chaosflow_objective_samples_total{{objective={TTFT}}}"] == 200
    assert found[f"chaosflow_objective_exceedances_total{{objective={TTFT}}}"] == 15, (
        "only those that are sure"
    )
    assert found[f"chaosflow_objective_allowed_ratio{{objective={TTFT}}}"] == pytest.approx(0.05)
    assert found[f"chaosflow_error_budget_spent_ratio{{objective={TTFT}}}"] == pytest.approx(15 / 10)
    assert not any("spent" in k and "error_rate" in k for k in found), "no samples: absent, not 0"
    assert not any("allowed" in k and "recovery" in k for k in found), "recovery is no share of samples"


def test_objectives_go_from_pending_to_live_to_verdict(live: LiveMetrics) -> None:
    def now() -> list[str]:
        prefix = f"chaosflow_objective_state{{objective={TTFT},state="
        return [k[len(prefix) : -1] for k, v in values(live).items() if k.startswith(prefix) and v == 1]

    seen = [now()]
    live.frame(Frame("fault jitter", 30.0, 5.0, 60.0, objectives=(ObjectiveNow(TTFT, State.FAIL, ""),)))
    seen.append(now())
    live.end("pass", {TTFT: "pass"})
    seen.append(now())
    assert seen == [["pending"], ["fail"], ["pass"]]


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("warm-up", "warmup"),
        ("baseline", "baseline"),
        ("fault jitter, freeze", "fault"),
        ("recovery from jitter", "recovery"),
        ("between faults", "between"),
        ("end", "ended"),
    ],
)
def test_phases_come_without_names(live: LiveMetrics, text: str, phase: str) -> None:
    live.frame(Frame(text, 1.0, None, 2.0))
    found = values(live)
    assert [p for p in PHASES if found[f"chaosflow_phase{{phase={p}}}"] == 1] == [phase]


def test_the_next_run_of_a_sweep_goes_on_counting_and_starts_its_gauges_anew(
    live: LiveMetrics, prepared: Prepared
) -> None:
    live.batch(batch(counts={(0, "*"): Count(resolved=5)}, cells={(0, "baseline", 0): Cell(n=9, fail_low=1)}))
    live.mark(Mark(MarkKind.INJECT_ACK, 1, "jitter"))
    live.end("fail", {TTFT: "fail"})
    live.begin(prepared.loaded.scenario, prepared.timeline, str)
    live.batch(batch(counts={(0, "*"): Count(resolved=2)}, cells={(0, "baseline", 0): Cell(n=1)}))
    found = values(live)
    assert found["chaosflow_runs_total{state=fail}"] == 1
    assert found["chaosflow_requests_total{result=ok}"] == 7
    assert found["chaosflow_fault_active{fault=jitter,kind=proxy.latency}"] == 0
    assert found[f"chaosflow_error_budget_spent_ratio{{objective={TTFT}}}"] == 0
    assert found[f"chaosflow_objective_samples_total{{objective={TTFT}}}"] == 10
    assert found[f"chaosflow_objective_state{{objective={TTFT},state=pending}}"] == 1


def test_labels_hide_secrets(prepared: Prepared) -> None:
    live = LiveMetrics()
    live.begin(prepared.loaded.scenario, prepared.timeline, lambda text: text.replace("4s", "***"))
    live.frame(Frame("baseline", 0.0, 1.0, 2.0, objectives=(ObjectiveNow(TTFT, State.PASS, ""),)))
    live.batch(batch(cells={(0, "baseline", 0): Cell(n=1)}))
    names = " ".join(values(live))
    assert "ttft.p95 <= ***" in names
    assert "4s" not in names


def test_names_follow_the_conventions_and_no_label_grows_with_the_runs(live: LiveMetrics) -> None:
    """Base units, ``_total`` on counters only, no run id: prometheus.io/docs/practices/naming."""
    live.batch(batch(by_second={(0, m): Histogram({1: 1}) for m in BOUNDS_S}, health={"rss_bytes": 1.0}))
    live.end("pass", {})
    allowed = {"fault", "kind", "state", "phase", "result", "stamp", "metric", "quantile", "objective", "le"}
    for family in families(live.snapshot):
        assert re.fullmatch(r"chaosflow_[a-z0-9_]+", family.name)
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|millis|minutes|percent|kb|mb)(_|$)", family.name)
        for sample in family.samples:
            assert ("_total" in sample.name) == (family.type == "counter")
            extra = {"version", "python", "scenario"} if family.type == "info" else set()
            assert set(sample.labels) <= allowed | extra


@pytest.fixture
def server(live: LiveMetrics) -> Iterator[MetricsServer]:
    with MetricsServer(live, 0) as served:
        yield served


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def test_a_scrape_is_parsed_by_the_official_parser(server: MetricsServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    names = {family.name for family in text_string_to_metric_families(fetch(server.url))}
    assert {"chaosflow_build_info", "chaosflow_fault_active", "chaosflow_ttft_seconds"} <= names


def test_before_the_first_run_there_is_something_to_scrape() -> None:
    with MetricsServer(LiveMetrics(), 0) as served:
        text = fetch(served.url)
    assert "chaosflow_requests_total" in text
    assert "chaosflow_run_info" not in text


def test_a_port_in_use_is_named_with_a_remedy(server: MetricsServer) -> None:
    with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{server.port}.*in use.*--metrics-port"):
        MetricsServer(LiveMetrics(), server.port)


@pytest.mark.parametrize("address", ["256.1.1.1", "192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="cannot listen there"):
        MetricsServer(LiveMetrics(), 0, address)


def test_it_is_gone_afterwards_and_served_ipv6_too() -> None:
    with MetricsServer(LiveMetrics(), 0, "::1") as served:
        assert served.url.startswith("http://[::1]:")
        fetch(served.url)
    with pytest.raises(OSError, match="refused"), socket.create_connection(("::1", served.port), timeout=2):
        pass


def test_a_scrape_stands_aside_while_an_injection_or_a_revert_is_due(
    live: LiveMetrics, prepared: Prepared
) -> None:
    begin_ns = 10**12
    live.mark(Mark(MarkKind.BASELINE_BEGIN, begin_ns))
    zero_s = 1000 + prepared.timeline.baseline_s
    jitter = prepared.timeline.step("jitter")
    assert jitter.revert_s is not None
    for due_s in (zero_s + jitter.inject_s, zero_s + jitter.revert_s):
        waits = [live.busy_s(int((due_s + d) * 1e9)) for d in (-0.2, -0.05, 0.0, 0.1)]
        assert waits[0] == waits[3] == 0
        assert waits[1] == pytest.approx(0.07, abs=1e-6)
        assert waits[2] == pytest.approx(0.02, abs=1e-6)


def test_a_scrape_that_stood_aside_is_answered(
    server: MetricsServer, live: LiveMetrics, prepared: Prepared
) -> None:
    jitter = prepared.timeline.step("jitter")
    due_ns = time.monotonic_ns() + 90_000_000
    live.mark(
        Mark(MarkKind.BASELINE_BEGIN, due_ns - int((prepared.timeline.baseline_s + jitter.inject_s) * 1e9))
    )
    assert "chaosflow_phase" in fetch(server.url)
    assert time.monotonic_ns() > due_ns


@pytest.mark.slow
def test_scrapes_and_stalled_scrapers_hold_nothing_up(server: MetricsServer, live: LiveMetrics) -> None:
    """Clients that connect and say nothing, and others that scrape in a row, while the run tells its frames."""
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
    stop = threading.Event()
    scraped: list[int] = []

    def scrape() -> None:
        while not stop.is_set():
            scraped.append(len(fetch(server.url)))

    threads = [threading.Thread(target=scrape) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        slowest_s = max(_timed(lambda: live.frame(Frame("baseline", 0.0, 1.0, 2.0))) for _ in range(200))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for connection in silent:
            connection.close()
    assert scraped
    assert slowest_s < 1.0, "a lock shared with a stalled scrape would wait for ever; a busy machine does not"


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    time.sleep(0.002)
    return time.monotonic() - began
