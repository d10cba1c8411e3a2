"""What the charts contain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_result import sample

from chaosflow.core.result import RunResult
from chaosflow.reports.bokeh_charts import bokeh_page
from chaosflow.reports.chartbook import chart_book
from chaosflow.reports.chartspec import Panel
from chaosflow.reports.downsample import downsample
from chaosflow.reports.svg_charts import nice_ticks, svg_plot


def _panel(result: RunResult, key: str) -> Panel:
    return next(p for p in chart_book(result).panels if p.key == key)


_VALUES = st.one_of(st.floats(0, 1e6, width=32), st.just(float("nan")))


@given(st.lists(_VALUES, min_size=1, max_size=400), st.integers(4, 60))
def test_downsampling_keeps_minimum_and_maximum(values: list[float], rows: int) -> None:
    t = np.arange(len(values), dtype=np.float32)
    column = np.array(values, dtype=np.float32)
    fewer_t, fewer = downsample(t, {"v": column}, rows)
    assert len(fewer_t) == len(fewer["v"]) <= max(rows, 4)
    assert (np.diff(fewer_t) >= 0).all()
    if not np.isnan(column).all():
        assert np.nanmin(fewer["v"]) == np.nanmin(column)
        assert np.nanmax(fewer["v"]) == np.nanmax(column)


def test_panels_bands_and_limits_of_the_sample() -> None:
    book = chart_book(sample())
    assert [p.key for p in book.panels] == [
        "ttft",
        "heat_ttft",
        "gap",
        "heat_gap",
        "e2e",
        "heat_e2e",
        "throughput",
        "requests",
        "error_rate",
        "concurrency",
        "parts",
        "clock",
        "cpu",
        "client_lag",
    ]
    assert [(b.number, b.name) for b in book.bands] == [
        (1, "jitter"),
        (2, "gpu-clock-throttle"),
        (3, "pause"),
    ]
    assert len({(b.colour, b.hatch) for b in book.bands}) == 3
    assert book.bands[1].recovered_s == pytest.approx(82.019 + 2.1)
    (limit,) = book.panels[0].limits
    assert limit.y == pytest.approx(200)
    assert limit.spans[0][0] == 0.0, "not over the warm-up, which is not judged"


def test_relative_limit_is_drawn_where_it_was_resolved() -> None:
    result = sample()
    objective = result.objectives[0]
    objective.segments = objective.segments[1:3]
    for verdict in objective.segments:
        verdict.limit = 0.9
    (limit,) = _panel(result, "e2e").limits
    assert limit.spans == ((45.0, 69.0),)


def test_limit_far_above_is_named_and_does_not_flatten_the_curves() -> None:
    result = sample()
    for verdict in result.objectives[1].segments:
        verdict.limit = 60.0
    panel = chart_book(result).panels[0]
    assert not panel.limits
    assert panel.hidden_limits
    assert panel.y_max < 2000


def test_fault_never_reverted_reaches_to_the_end() -> None:
    result = sample()
    result.faults[2].revert_begin_s = result.faults[2].revert_ack_s = None
    assert chart_book(result).bands[2].end_s == max(s.end_s for s in result.segments)


def test_nothing_measured_gives_no_panels() -> None:
    result = sample(probes={}, segments=[], faults=[], heat=[])
    result.series = type(result.series)()
    book = chart_book(result)
    assert book.panels == ()
    assert book.end_s > book.begin_s


def test_holes_lift_the_pen() -> None:
    result = sample()
    result.series.ttft_p50_ms[50] = None
    book = chart_book(result)
    path = str(svg_plot(book.panels[0], book).svg)
    assert "NaN" not in path.upper().replace("NANO", "")
    assert path.count("M") >= 5


def test_text_is_never_taken_for_tex() -> None:
    """BokehJS would load MathJax from a host for it."""
    result = sample()
    result.probes = {r"engine.running$$x$$\(y\)": result.probes["engine.running_requests"]}
    assert "$$" not in bokeh_page(chart_book(result)).data_json


def test_ticks_are_round() -> None:
    assert nice_ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert nice_ticks(-5, 107.4, 6) == [0, 20, 40, 60, 80, 100]
    assert nice_ticks(0, 0.05, 5) == [0, 0.01, 0.02, 0.03, 0.04, 0.05]


def test_the_static_drawing_marks_recoveries_and_ends_with_the_run() -> None:
    """Without JavaScript and on paper the page promised a dotted line that was not there."""
    result = sample()
    end_s = max(s.end_s for s in result.segments)
    heat = result.heat[0]
    heat.column_s = 1.05 * (end_s - heat.begin_s) / len(heat.counts[0])
    book = chart_book(result)
    drawn = [svg_plot(panel, book).svg for panel in book.panels]
    place = 1000 * ((book.bands[1].recovered_s or 0) - book.begin_s) / (book.end_s - book.begin_s)
    assert f'stroke: {book.bands[1].colour}" d="M{place:.1f} 0V150' in drawn[0]
    assert "clip-path: inset(0 " in drawn[1]
