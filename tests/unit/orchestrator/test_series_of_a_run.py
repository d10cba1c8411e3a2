"""The charts' data as it is built: intervals, heat maps, bounded memory, nothing lost of a peak."""

from __future__ import annotations

import math
import random

import pytest

from chaosflow.core.histogram import Histogram
from chaosflow.core.slots import CellBatch, CellStore, Count
from chaosflow.orchestrator import series as series_module
from chaosflow.orchestrator.series import (
    COLUMNS,
    HeatBuilder,
    Row,
    SeriesBuilder,
    csv_header,
    csv_line,
    quantiles_with_intervals,
)


def _histogram(values_ms: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values_ms:
        histogram.add(value * 1e6)
    return histogram


def test_interval_covers_the_true_quantile_as_often_as_it_says() -> None:
    rng = random.Random(7)
    true_ms = 20 * math.exp(0.5 * 1.6448536)  # P95 of a log-normal
    hits = 0
    for _ in range(400):
        found = quantiles_with_intervals(_histogram([20 * math.exp(rng.gauss(0, 0.5)) for _ in range(300)]))
        low, high = found[4], found[5]
        assert low is not None
        assert high is not None
        hits += low <= true_ms * 1.005 and true_ms <= high * 1.005
    assert 0.92 <= hits / 400 <= 1.0


def test_too_few_samples_bound_nothing() -> None:
    p50, low, high, p95, _, p95_high, p99, _, p99_high = quantiles_with_intervals(
        _histogram([10.0, 20.0, 30.0])
    )
    assert p50 == pytest.approx(20, rel=0.01)
    assert (low, high, p95_high, p99_high) == (None, None, None, None)
    assert p95 == p99 == pytest.approx(30, rel=0.01)
    assert quantiles_with_intervals(Histogram()) == [None] * 9


def _fill(store: CellStore, second: int, ms: float) -> None:
    batch = CellBatch("0", second + 1, 0)
    for metric in ("ttft", "gap", "e2e", "client_lag"):
        batch.by_second[second, metric] = _histogram([ms] * 3)
    batch.counts[second, "*"] = Count(resolved=4, failed=1, tokens=30)
    store.merge(batch)


def test_rows_and_csv_have_every_column() -> None:
    store, rows = CellStore(), list[Row]()
    builder = SeriesBuilder(-2.0, rows.append)
    for second in range(5):
        _fill(store, second, 10.0)
        builder.extend(store, second, {second: 7})
    made = builder.result()
    assert made.t_s == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert made.error_percent == [25.0] * 5
    assert made.in_flight == [7.0] * 5
    assert made.ttft_p50_ms[4] == pytest.approx(10, rel=0.01)
    assert made.client_lag_p99_ms[0] == pytest.approx(10, rel=0.01)
    assert not made.reduced
    assert csv_header().strip().split(",") == list(COLUMNS)
    assert len(csv_line(rows[0]).split(",")) == len(COLUMNS)


def test_a_second_that_the_end_cuts_has_no_rate() -> None:
    """Each chart of a rate used to end in a fall that no service had."""
    store, rows = CellStore(), list[Row]()
    builder = SeriesBuilder(0.0, rows.append)
    for second in range(4):
        _fill(store, second, 10.0)
    builder.extend(store, 1, {})
    builder.extend(store, 3, {}, 3)
    made = builder.result()
    assert made.tokens_per_s == [30.0, 30.0, 30.0, None]
    assert (made.requests_per_s[-2:], made.errors_per_s[-2:]) == ([4.0, None], [1.0, None])
    assert made.error_percent == [25.0] * 4
    assert made.ttft_p50_ms[3] is not None
    assert ",,,," in csv_line(rows[3])


def test_a_long_run_is_thinned_out_and_keeps_its_spike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "KEPT_ROWS", 100)
    store = CellStore()
    builder = SeriesBuilder(0.0)
    for second in range(900):
        _fill(store, second, 5000.0 if second == 137 else 10.0)
        builder.extend(store, second, {})
    made = builder.result()
    assert made.reduced
    assert 100 <= len(made.t_s) <= 200
    assert max(v for v in made.e2e_p99_ms if v is not None) == pytest.approx(5000, rel=0.01)
    assert made.t_s[-1] == 899.0


def test_heat_map_counts_everything_once_in_at_most_200_columns() -> None:
    builder = HeatBuilder("ttft")
    for second in range(3, 1803):
        builder.add(second, _histogram([0.00001, 10.0, 20.0]))
    heat = builder.result(-3.0)
    assert heat.begin_s == 0.0
    assert heat.column_s == 16
    columns = len(heat.counts[0])
    assert 100 <= columns <= 200
    assert sum(map(sum, heat.counts)) == 3 * 1800
    assert len(heat.edges_ms) == len(heat.counts) + 1
    assert heat.edges_ms == sorted(heat.edges_ms)
    assert heat.edges_ms[0] == pytest.approx(0.1, rel=0.3), "what came in one read does not stretch the axis"
