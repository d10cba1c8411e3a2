"""Heat maps, areas, sparklines, and the tables of the report."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image
from sample_result import sample

from chaosflow.core.result import BudgetResult, BurnRateResult, HeatMap
from chaosflow.reports import sections, words
from chaosflow.reports.areas import outline
from chaosflow.reports.chartbook import chart_book
from chaosflow.reports.chartspec import Area
from chaosflow.reports.heat import LEVELS, heat_panel, png
from chaosflow.reports.html import render_html
from chaosflow.reports.recovery_plot import recovery_plots
from chaosflow.reports.sparkline import sparkline
from chaosflow.reports.worst_plot import worst_table


def test_heat_map_is_a_picture_of_its_counts() -> None:
    heat = HeatMap(
        metric="ttft",
        begin_s=0,
        column_s=2,
        edges_ms=[10, 12.5, 15.6, 19.5],
        counts=[[0, 1], [9, 0], [0, 99]],
    )
    panel = heat_panel(heat, "TTFT")
    assert panel.heat is not None
    assert panel.heat.levels.tolist()[0][0] == 0, "nothing is no colour"
    assert panel.heat.levels.max() == LEVELS - 1
    assert (panel.heat.begin_s, panel.heat.end_s) == (0, 4)
    data = base64.b64decode(png(panel.heat.levels).split(",")[1])
    with Image.open(io.BytesIO(data)) as image:
        picture = image.convert("RGBA")
    assert picture.size == (2, 3)
    assert picture.getpixel((0, 2)) == (0, 0, 0, 0), "the first row is the lowest"
    assert picture.getpixel((1, 0)) == (0x00, 0x72, 0xB2, 0xFF), "most is darkest"


def test_area_with_a_hole_is_two_pieces() -> None:
    nan = float("nan")
    t, low, high = (
        np.array(v, dtype=np.float32) for v in ([0, 1, 2, 3, 4], [1, 1, nan, 1, 1], [2, 2, 2, 2, 2])
    )
    xs, ys = outline(Area("", "#000000", 1.0, t, low, high))
    assert np.isnan(xs).sum() == 1
    assert xs[~np.isnan(xs)].tolist() == [0, 1, 1, 0, 3, 4, 4, 3]
    assert ys[~np.isnan(ys)].tolist() == [2, 2, 1, 1, 2, 2, 1, 1]


def test_confidence_band_holds_its_curve_and_parts_stack_up() -> None:
    panels = {p.key: p for p in chart_book(sample()).panels}
    assert [a.label for a in panels["e2e"].areas] == ["P50", "P95"], (
        "an interval that is not bounded is not drawn"
    )
    parts = panels["parts"]
    assert parts.stacked
    top = parts.areas[-1].high
    assert np.nanmax(top) == pytest.approx(parts.y_max / 1.08, rel=0.01)
    for below, above in zip(parts.areas, parts.areas[1:], strict=False):
        assert np.allclose(below.high, above.low)


def test_engine_step_by_part_and_segment() -> None:
    table = sections.parts_table(sample())
    assert table.columns == ("embedding", "attention", "projection", "io", "scheduling", "step")
    rows = dict(table.rows)
    assert float(rows["gpu-clock-throttle"][-1]) > 3 * float(rows["baseline"][-1])
    assert sections.parts_table(sample(probes={})).rows == ()


def test_errors_by_segment_and_kind() -> None:
    table = sections.error_table(sample())
    assert table.columns == ("ended", "failed", "share", "reset")
    ((name, cells),) = table.rows
    assert (name, cells[1], cells[-1]) == ("pause", "3", "3")


def test_recoveries_and_lives_are_drawn() -> None:
    plots = recovery_plots(sample())
    assert [p.name for p in plots] == ["jitter", "gpu-clock-throttle", "pause"]
    assert all('class="recovered"' in str(plot.svg) for p in plots for _, plot in p.plots)
    censored = sample()
    assert censored.faults[0].recovery is not None
    censored.faults[0].recovery.seconds = None
    assert 'class="recovered"' not in str(recovery_plots(censored, 1)[0].plots[0][1].svg), (
        "not reached is no moment"
    )
    lives = worst_table(sample()).rows
    assert sum('class="broken"' in str(strip) for _, strip in lives) == 2


def test_sparkline_without_values_is_nothing() -> None:
    assert sparkline([1, 2], [None, None], label="x") == ""
    assert "NaN" not in sparkline([0, 1, 2, 3], [1, None, 3, 3], label="<b>")
    assert "<b>" not in sparkline([0, 1], [1, 2], label="<b>")


def test_bytes_are_told_in_bytes() -> None:
    assert words.reading("host.memory_available_bytes", 22.6e9) == "22.6 GB"
    assert words.reading("host.cpu_percent", 99.5) == "99.5 %"


def test_error_budget_is_shown() -> None:
    result = sample()
    burn = BurnRateResult(factor=14.4, long_s=60, short_s=5, budget_part=0.02, peak=31.0, peak_at_s=71.0)
    result.objectives[0].budget = BudgetResult(
        allowed_share=0.01, n=4320, bad=431, spent=9.98, period_s=108, burn=[burn]
    )
    page = render_html(result)
    assert "431 bad of 4,320, 43.2 allowed" in page
    assert "Burn rate over 1 min at most 31× at 71 s; an alarm at 14.4× (never)." in page


def test_of_very_many_faults_what_is_wrong_comes_first() -> None:
    """300 faults: readable and small. The one that could not be undone is told in full, wherever it stands."""
    one = sample().faults[0]
    faults = [one.model_copy(update={"name": f"f{i}"}) for i in range(300)]
    faults[211] = faults[211].model_copy(update={"reverted": False})
    chosen = sections.notable(sample(faults=faults), 20)
    assert 212 in [number for number, _ in chosen.faults]
    assert len(chosen.faults) == 20
    assert len(chosen.others) == 280


def test_absent_tpot_is_a_dash_and_never_zero() -> None:
    """vllm-omni 6693: a TPOT of 0 or below passed its upper bound; one that there is not is shown as such."""
    result = sample()
    verdict = result.objectives[0].segments[0]
    verdict.observed = verdict.low = verdict.high = None
    verdict.state, verdict.n, verdict.sentence = "inconclusive", 0, "no requests in this segment"
    result.objectives[0].text = "tpot.p99 <= 50ms"
    page = render_html(result)
    row = page[page.index("Segments of tpot.p99") :].split("</tr>")[1]
    assert ">–</td>" in row
    assert ">0 s</td>" not in row


def test_worst_segment_is_the_one_that_the_sentence_names() -> None:
    objective = sample().objectives[0]
    objective.sentence = "in pause (and 1 more): e2e over 2 s in 56 of 174 requests"
    worst = words.worst_segment(objective)
    assert worst is not None
    assert worst.segment == "pause"
    objective.sentence = "too few samples"
    worst = words.worst_segment(objective)
    assert worst is not None
    assert worst.segment == "gpu-clock-throttle"


def test_a_large_share_has_no_exponent() -> None:
    assert words.share(31.47) == "3,147 %"
    assert words.share(0.0074) == "0.74 %"
