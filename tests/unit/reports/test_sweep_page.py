"""sweep.html and the table in the terminal: the answer first, honest about what is not known, offline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from chaosflow.core.sweepresult import AxisResult, PointObjective, PointResult, SweepResult
from chaosflow.orchestrator.sweep import conclude
from chaosflow.reports.sweep_page import charts, render_sweep, write_sweep
from chaosflow.reports.sweep_table import sweep_table

DELAY = AxisResult(
    path="faults.jitter.params.delay_ms", short="jitter.delay_ms", values=["10", "20", "40", "80"],
    numbers=[10, 20, 40, 80],
)  # fmt: skip
KIND = AxisResult(
    path="faults.jitter.params.distribution", short="jitter.distribution", values=["normal", "uniform"]
)


def point(state: str, observed: float | None = 0.1, **values: str) -> PointResult:
    names = {"delay": DELAY.path, "kind": KIND.path}
    return PointResult(
        values={names[k]: v for k, v in values.items()},
        state=state,
        exit_code=0,
        reason=f"reason of <{state}>",
        runs=["20261129-101112-s-ab12"],
        wall_s=61,
        objectives=[
            PointObjective(
                text="ttft.p95 <= 200ms", metric="ttft", kind="request_quantile", state=state, segment="jitter",
                limit=0.2, observed=observed, low=observed and observed * 0.9, high=observed and observed * 1.1,
            )
        ],
    )  # fmt: skip


def made(axes: list[AxisResult], points: list[PointResult], mode: str = "grid") -> SweepResult:
    result = SweepResult(
        sweep_id="20261129-101112-sweep-ab12", name="demo", mode=mode, axes=axes, points=points,
        planned_runs=4, started_utc="2026-11-29T10:11:12.000Z", ended_utc="2026-11-29T10:15:12.000Z",
        command=["chaosflow", "sweep", "demo", "--set", "x=1, 2"], simulated=["the engine"],
    )  # fmt: skip
    conclude(result)
    return result


@pytest.fixture
def broken_at_40() -> SweepResult:
    return made(
        [DELAY],
        [
            point("pass", 0.06, delay="10"),
            point("pass", 0.12, delay="20"),
            point("fail", 0.26, delay="40"),
            point("fail", 0.5, delay="80"),
        ],
    )


def test_the_answer_comes_first(broken_at_40: SweepResult) -> None:
    page = render_sweep(broken_at_40)
    assert "Holds up to 20" in page
    assert "holds up to jitter.delay_ms = 20 and breaks at 40" in page
    assert page.index("Holds up to 20") < page.index("Where it breaks") < page.index("What was observed")
    assert 'class="edge"' in page


def test_the_page_is_one_file_offline_and_escaped(broken_at_40: SweepResult) -> None:
    page = render_sweep(broken_at_40)
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert set(links) == {"data:,", "20261129-101112-s-ab12/report.html"}
    assert "url(" not in page
    assert "reason of &lt;fail&gt;" in page
    assert "reason of <fail>" not in page
    assert len(page.encode()) < 200_000


def test_the_chart_shows_observations_intervals_and_limit(broken_at_40: SweepResult) -> None:
    (chart,) = charts(broken_at_40)
    (curve,) = chart.curves
    assert [d.state for d in curve.dots] == ["pass", "pass", "fail", "fail"]
    assert chart.limit_at is not None
    assert curve.dots[1].bottom < chart.limit_at < curve.dots[2].bottom
    lefts = [d.left for d in curve.dots]
    assert lefts[2] - lefts[1] == pytest.approx(2 * (lefts[1] - lefts[0])), "placed by value, not evenly"
    assert all(d.whisker and d.whisker[0] < d.bottom for d in curve.dots)
    assert chart.limit == "200 ms"


def test_a_limit_far_above_is_named_and_not_drawn() -> None:
    points = [point("pass", 0.001, delay="10"), point("pass", 0.002, delay="20")]
    (chart,) = charts(made([DELAY], points))
    assert chart.limit_at is None
    assert "limit 200 ms (far above)" in render_sweep(made([DELAY], points))


def test_what_was_not_observed_is_absent_and_not_zero() -> None:
    """vllm-omni 6693: a missing time is no 0 that passes an upper bound."""
    points = [
        point("pass", 0.1, delay="10"),
        point("inconclusive", None, delay="20"),
        point("fail", 0.3, delay="40"),
    ]
    (chart,) = charts(made([DELAY], points))
    assert len(chart.curves[0].dots) == 2


def test_a_pass_beyond_a_fail_is_no_answer() -> None:
    states = ["pass", "fail", "pass", "fail"]
    result = made([DELAY], [point(s, 0.1, delay=v) for s, v in zip(states, DELAY.values, strict=True)])
    page = render_sweep(result)
    assert result.exit_code == 3
    assert "No clear answer" in page
    assert "yet passes at 40" in page


def test_two_axes_make_a_table_of_states_and_a_curve_each() -> None:
    result = made(
        [KIND, DELAY],
        [
            point("pass" if (kind == "normal" or delay == "10") else "fail", 0.1, kind=kind, delay=delay)
            for kind in KIND.values
            for delay in DELAY.values
        ],
    )
    page = render_sweep(result)
    assert [c.label for c in charts(result)[0].curves] == [f"jitter.distribution = {k}" for k in KIND.values]
    assert page.count("pass</span></a>") == 5
    assert "Breaking points found" in page
    assert "distribution = uniform: holds up to jitter.delay_ms = 10 and breaks at 20" in result.reason


def test_what_bisecting_skipped_is_shown_as_skipped() -> None:
    result = made([DELAY], [point("pass", delay="10"), point("fail", delay="80")], mode="bisect")
    page = render_sweep(result)
    assert page.count('class=" skipped"') == 2
    assert "takes for granted" in page


def test_no_run_at_all_is_a_page_too(tmp_path: Path) -> None:
    result = made([DELAY], [])
    write_sweep(result, tmp_path)
    assert "No run was finished" in (tmp_path / "sweep.html").read_text()
    assert SweepResult.model_validate_json((tmp_path / "sweep.json").read_text()) == result


def text_of(result: SweepResult, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(sweep_table(result))
    return capture.get()


def test_the_terminal_fits_80_columns_and_is_in_the_order_of_the_values(broken_at_40: SweepResult) -> None:
    broken_at_40.points.reverse()
    text = text_of(broken_at_40)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "✓ PASS" in text
    assert "holds up to jitter.delay_ms = 20" in text
    rows = [line.split()[0] for line in text.splitlines() if "ttft.p95" in line]
    assert rows == DELAY.values


def test_an_undecided_point_tells_its_reason_in_the_terminal() -> None:
    text = text_of(made([DELAY], [point("pass", delay="10"), point("inconclusive", delay="20")]), 120)
    assert "reason of <inconclusive>" in text
    assert "where it breaks is not known" in text
