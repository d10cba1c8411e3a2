"""A nightly's series: what is a regression, what is known, what has gone, and what is too short to say."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

import pytest

from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.judge import Policy, judge_series, points_of, suspicious
from chaosflow.reports.history.metrics import Value
from chaosflow.reports.history.report import Annotation, Point, SeriesReport

FIRST = datetime(2026, 9, 1, 2)
ALPHA = 0.002


def nights(values: list[float], runs: list[list[float]] | None = None) -> list[Point]:
    return [
        Point(
            utc=(FIRST + timedelta(days=i)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            value=value,
            runs=[value] if runs is None else runs[i],
            run_ids=["r"],
        )
        for i, value in enumerate(values)
    ]


def noisy(levels: list[float], cv: float = 0.04, seed: int = 3) -> list[float]:
    random = Random(seed)
    return [level * (1 + cv * random.gauss(0, 1)) for level in levels]


def judged(values: list[float], metric: str = "ttft_p95_ms", **policy: object) -> SeriesReport:
    return judge_series("chat", ("jitter", metric), nights(values), Policy(**policy), ALPHA)  # type: ignore[arg-type]


def test_a_steady_series_is_steady() -> None:
    report = judged(noisy([100.0] * 60))
    assert (report.state, report.changes) == ("steady", [])


def test_few_nights_are_learning_and_never_pass_as_steady() -> None:
    report = judged(noisy([100.0] * 7))
    assert report.state == "learning"
    assert "7 of the 8 nights" in report.sentence


def test_a_step_is_a_regression_dated_to_its_night() -> None:
    report = judged(noisy([100.0] * 50 + [125.0] * 10))
    (change,) = report.changes
    assert report.state == "regression"
    assert change.utc[:10] == "2026-10-21"
    assert change.nights_ago == 9
    assert "on 2026-10-21 (9 nights ago)" in report.sentence


def test_it_stays_one_until_it_is_gone_or_known() -> None:
    """An old regression that nobody dealt with fails every night, not only the one that found it."""
    assert judged(noisy([100.0] * 20 + [125.0] * 40)).state == "regression"
    gone = judged(noisy([100.0] * 20 + [125.0] * 20 + [100.0] * 20))
    assert gone.state in ("steady", "improved")
    assert [c.open for c in gone.changes if c.worse] == [False]
    note = Annotation(date=date(2026, 9, 22), text="new model")
    known = judged(noisy([100.0] * 20 + [125.0] * 40), annotations=(note,))
    assert known.state == "acknowledged"
    assert known.sentence.endswith("known: new model")


@pytest.mark.parametrize(
    "other", [{"scenario": "x"}, {"segment": "x"}, {"metric": "e2e_p95_ms"}, {"date": date(2026, 9, 29)}]
)
def test_an_annotation_for_something_else_acknowledges_nothing(other: dict[str, object]) -> None:
    note = Annotation(**{"date": date(2026, 9, 22), "text": "x", **other})  # type: ignore[arg-type]
    assert judged(noisy([100.0] * 20 + [125.0] * 40), annotations=(note,)).state == "regression"


def test_an_improvement_is_none() -> None:
    assert judged(noisy([100.0] * 50 + [80.0] * 10)).state == "improved"
    assert judged(noisy([100.0] * 50 + [80.0] * 10), "tokens_per_s").state == "regression"


def test_a_regression_back_to_before_an_improvement_is_one() -> None:
    report = judged(noisy([100.0] * 20 + [70.0] * 20 + [100.0] * 20))
    assert report.state == "regression"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_several_small_steps_are_seen_against_the_baseline(seed: int) -> None:
    """asv 932: each step is below the threshold, their sum is not."""
    levels = [100.0 * 1.04 ** (i // 12) for i in range(60)]
    report = judged(noisy(levels, cv=0.02, seed=seed))
    assert report.state == "regression"
    slow = judged(noisy([100.0 * (1 + 0.003 * i) for i in range(60)], cv=0.02, seed=seed))
    assert slow.state == "regression"


def test_tonight_counts_at_once_when_its_repeats_confirm_it() -> None:
    values = [*noisy([100.0] * 30), 140.0]
    runs = [[v] for v in values[:-1]] + [[138.0, 140.0, 144.0]]
    report = judge_series("chat", ("jitter", "ttft_p95_ms"), nights(values, runs), Policy(), ALPHA)
    assert report.state == "regression"
    assert report.changes[-1].kind == "tonight"
    alone = judge_series("chat", ("jitter", "ttft_p95_ms"), nights(values), Policy(), ALPHA)
    assert alone.state == "steady", "a single night may be a bad moment"


def test_suspects_are_worse_than_usual_by_enough() -> None:
    points = nights(noisy([100.0] * 20))
    assert suspicious(points, 140.0, "ttft_p95_ms", 0.1)
    assert not suspicious(points, 108.0, "ttft_p95_ms", 0.1)
    assert not suspicious(points, 60.0, "ttft_p95_ms", 0.1)
    assert not suspicious(points[:3], 400.0, "ttft_p95_ms", 0.1)


def test_repeats_of_one_night_are_one_point_by_their_median() -> None:
    def entry(run_id: str, session: str, value: float, state: str = "pass") -> Entry:
        code = {"pass": 0, "invalid": 4}[state]
        values = {("baseline", "e2e_p95_ms"): Value(value, 100)}
        return Entry(
            run_id, "chat", state, code, "", "2026-09-01T02:00:00Z", 1.0, session=session, values=values
        )

    runs = [
        entry("a", "n1", 100),
        entry("b", "n1", 300),
        entry("c", "n1", 110),
        entry("d", "n1", 9, "invalid"),
        entry("e", "", 50),
    ]
    (points,) = points_of(runs, ("e2e_p95_ms",)).values()
    assert [p.value for p in points] == [110, 50]
    assert points[0].run_ids == ["a", "b", "c"]


def test_the_more_series_the_stricter_each() -> None:
    assert Policy().alpha(1) == 0.01
    assert Policy().alpha(50) == pytest.approx(0.001)
    assert Policy().alpha(5000) == 2e-4
