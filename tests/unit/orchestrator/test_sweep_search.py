"""Which points a sweep runs, in which order, and what its exit code says. No run is made here."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chaosflow.core.errors import ScenarioError, UsageError
from chaosflow.core.sweepresult import PointResult, SweepResult
from chaosflow.orchestrator.sweep import Sweep, conclude
from chaosflow.orchestrator.sweep_plan import SweepPlan, Values, plan_sweep

DELAY = "faults.jitter.params.delay_ms"


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Scripted(Sweep):
    """Instead of running a point, looks up what it would have shown; the search is the real one."""

    script: Callable[[float, int], str]

    def _one_run(self, values: Values, before: list[str]) -> PointResult:
        state = self.script(float(values[0]), len(before))
        if state == "interrupt":
            self._on_signal(signal.SIGINT, None)
            state = "inconclusive"
        codes = {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}
        return PointResult(
            values=self.plan.names(values),
            state=state,
            exit_code=codes[state],
            reason="",
            runs=[*before, "r"],
        )


def search(plan: SweepPlan, folder: Path, script: Callable[[float, int], str]) -> SweepResult:
    sweep = Scripted(
        plan, folder, ["chaosflow", "sweep"], lambda *_: contextlib.nullcontext(), lambda *_: None
    )  # type: ignore[arg-type,return-value]
    sweep.script = script
    return sweep.run()


def tried(result: SweepResult) -> list[float]:
    return [float(next(iter(point.values.values()))) for point in result.points]


def below(limit: float) -> Callable[[float, int], str]:
    return lambda value, _: "pass" if value < limit else "fail"


@cache
def bisect_plan(values: str, **options: Any) -> SweepPlan:
    return plan_sweep("quickstart", [f"{DELAY}={values}"], bisect=True, **options)


def test_a_grid_runs_every_combination_in_order() -> None:
    plan = plan_sweep("quickstart", [f"{DELAY}=40,50", "load.prompt_tokens=64,128", "seed=3"])
    assert list(plan.points) == [("40", "64"), ("40", "128"), ("50", "64"), ("50", "128")]
    first = plan.points["40", "64"].loaded.scenario
    assert (first.seed, first.load.prompt_tokens) == (3, 64)
    assert first.faults[0].params["delay_ms"] == 40


def test_a_fault_is_named_by_its_name() -> None:
    plan = plan_sweep("quickstart", ["faults.gpu-clock.params.target_freq_mhz=1200,600"])
    assert plan.points["600",].loaded.scenario.faults[1].params["target_freq_mhz"] == 600


def test_the_estimate_counts_timelines_and_starts() -> None:
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30"])
    timeline_s = next(iter(plan.points.values())).timeline.total_s
    assert 2 * timeline_s < plan.estimate_s < 2 * (timeline_s + 10)


@pytest.mark.parametrize("limit", [*range(15, 175, 10), 1000])
def test_bisecting_finds_the_limit_in_logarithmic_time(tmp_path: Path, limit: int) -> None:
    plan = bisect_plan("20..170:10")
    result = search(plan, tmp_path, below(limit))
    assert len(result.points) <= plan.most_points == 6
    (line,) = result.breaking
    if limit == 15:
        assert (line.verdict, result.exit_code, len(result.points)) == ("none_passes", 1, 1)
    elif limit == 1000:
        assert (line.verdict, result.exit_code, len(result.points)) == ("all_pass", 0, 2)
    else:
        assert (line.verdict, result.exit_code) == ("found", 0)
        assert float(line.holds_up_to or 0) < limit <= float(line.breaks_at or 0)
        assert float(line.breaks_at or 0) - float(line.holds_up_to or 0) == 10


def test_bisecting_goes_down_as_well_as_up(tmp_path: Path) -> None:
    plan = plan_sweep(
        "quickstart", ["faults.gpu-clock.params.target_freq_mhz=1980..300"], bisect=True, resolution="120"
    )
    result = search(plan, tmp_path, lambda mhz, _: "pass" if mhz >= 700 else "fail")
    (line,) = result.breaking
    assert (line.holds_up_to, line.breaks_at) == ("780", "660")


def test_an_undecided_run_is_repeated_once_when_bisecting(tmp_path: Path) -> None:
    result = search(
        bisect_plan("20..60:20"), tmp_path, lambda v, n: "inconclusive" if n == 0 else below(50)(v, n)
    )
    assert all(len(point.runs) == 2 for point in result.points)
    assert result.breaking[0].holds_up_to == "40"
    assert result.exit_code == 0


def test_what_stays_undecided_counts_as_not_passing_and_is_said(tmp_path: Path) -> None:
    result = search(
        bisect_plan("20..80:20"), tmp_path, lambda v, _: {20: "pass", 40: "inconclusive"}.get(int(v), "fail")
    )
    (line,) = result.breaking
    assert (line.verdict, line.holds_up_to, line.breaks_at) == ("found", "20", "80")
    assert "counted as not passing: 40 (inconclusive)" in result.reason
    assert {p.values[DELAY]: len(p.runs) for p in result.points} == {"20": 1, "80": 1, "40": 2}


def test_a_grid_does_not_repeat_unless_told(tmp_path: Path) -> None:
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30"])
    assert all(len(p.runs) == 1 for p in search(plan, tmp_path, lambda *_: "inconclusive").points)
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30"], retries=2)
    assert all(len(p.runs) == 3 for p in search(plan, tmp_path, lambda *_: "inconclusive").points)


@pytest.mark.parametrize(
    ("states", "code", "state"),
    [
        ("pass pass fail fail", 0, "pass"),
        ("pass pass pass pass", 0, "pass"),
        ("fail fail fail fail", 1, "fail"),
        ("pass inconclusive inconclusive inconclusive", 3, "inconclusive"),
        ("pass fail pass fail", 3, "inconclusive"),
        ("pass invalid inconclusive inconclusive", 4, "invalid"),
        ("pass fail invalid invalid", 0, "pass"),
    ],
)
def test_exit_codes(tmp_path: Path, states: str, code: int, state: str) -> None:
    """chaostoolkit-lib 45: one distinct code per outcome; only an answer is 0."""
    by_value = dict(zip((20, 30, 40, 50), states.split(), strict=True))
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30,40,50"])
    result = search(plan, tmp_path, lambda value, _: by_value[int(value)])
    assert (result.exit_code, result.state) == (code, state)


def test_an_interrupt_keeps_what_there_is(tmp_path: Path) -> None:
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30,40,50"])
    result = search(plan, tmp_path, lambda value, _: "interrupt" if value == 40 else "pass")
    assert tried(result) == [20, 30, 40]
    assert result.exit_code == 130
    assert "SIGINT" in result.stopped
    (folder,) = tmp_path.iterdir()
    kept = SweepResult.model_validate_json((folder / "sweep.json").read_text())
    assert kept == result
    assert "stopped early" in (folder / "sweep.html").read_text()


def test_a_fault_left_in_place_beats_every_answer(tmp_path: Path) -> None:
    plan = plan_sweep("quickstart", [f"{DELAY}=20,30"])
    result = search(plan, tmp_path, below(25))
    result.points[0].exit_code = 5
    conclude(result)
    assert result.exit_code == 5


@pytest.mark.parametrize(
    ("settings", "options", "cause"),
    [
        ([], {}, "nothing to vary"),
        (["seed=3"], {}, "nothing to vary"),
        ([f"{DELAY}=1,2", f"{DELAY}=3,4"], {}, "varied twice"),
        ([f"{DELAY}=1,2", "seed=3,4"], {"bisect": True}, "exactly one axis"),
        (["faults.jitter.params.distribution=normal,uniform"], {"bisect": True}, "exactly one axis"),
        ([f"{DELAY}=1..5:1"], {"resolution": "2"}, "only for --bisect"),
        ([f"{DELAY}=1..500:1"], {}, "500 runs"),
        ([f"{DELAY}=1..500"], {}, "no step"),
    ],
)
def test_what_cannot_be_swept_is_refused(settings: list[str], options: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        plan_sweep("quickstart", settings, **options)


def test_a_value_that_the_scenario_refuses_ends_it_before_the_first_run() -> None:
    with pytest.raises(
        ScenarioError, match=r"(?s)at jitter.delay_ms=10: .*jitter_ms 15 is more than delay_ms 10"
    ):
        plan_sweep("quickstart", [f"{DELAY}=20,10,5"])
    with pytest.raises(ScenarioError, match="nothing is named 'jittre'"):
        plan_sweep("quickstart", ["faults.jittre.params.delay_ms=1,2"])
