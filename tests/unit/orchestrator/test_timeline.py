"""``at``, ``after``, ``with`` and ``duration`` as seconds from the baseline's end."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from chaosflow.core.errors import ScenarioError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host, TargetHandle
from chaosflow.core.scenario import Scenario
from chaosflow.orchestrator.timeline import Timeline, build_timeline, conflicts


class Inert(FaultAtom):
    kind: ClassVar[str] = "test.inert"
    what: str = "a"

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({self.what})

    def check(self, host: Host) -> Capability:
        return Capability.yes()

    async def plan(self, host: Host, name: str) -> Undo:
        return Undo(kind=self.kind, name=name, run_id=host.run_id)

    async def inject(self, undo: Undo) -> None:
        return None

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        return Effect(False, "inert")

    @staticmethod
    async def revert(undo: Undo) -> None:
        return None


class Stacking(Inert):
    kind: ClassVar[str] = "test.stacking"
    composes: ClassVar[bool] = True


class Final(Inert):
    kind: ClassVar[str] = "test.final"
    reversible: ClassVar[bool] = False


KINDS = {"r": Inert, "s": Stacking, "f": Final}


def timeline(*faults: dict[str, Any], recovery: float = 10) -> Timeline:
    """Faults as ``{"n": name, "k": r|s|f, "at"|"after"|"with", "d": duration, "on": resource}``."""
    steps = [
        {"name": f["n"], "type": f.get("k", "r"), "duration": f.get("d")}
        | {k: f[k] for k in ("at", "after", "with") if k in f}
        for f in faults
    ]
    scenario = Scenario.model_validate(
        {
            "target": {"engine": {}},
            "load": {"arrival": {"kind": "poisson", "rate_per_s": 1}},
            "phases": {"warmup": 5, "baseline": 30, "recovery": recovery},
            "faults": steps,
            "sla": {"objectives": ["ttft.p95 <= 1s"]},
        }
    )
    return build_timeline(
        scenario, {f["n"]: KINDS[f.get("k", "r")](what=f.get("on", f["n"])) for f in faults}
    )


def starts(plan: Timeline) -> dict[str, float]:
    return {step.name: step.inject_s for step in plan.steps}


def test_chain_waits_for_the_recovery() -> None:
    plan = timeline({"n": "a", "d": 20}, {"n": "b", "after": "a", "d": 5})
    assert starts(plan) == {"a": 0, "b": 30}
    assert (plan.end_s, plan.total_s) == (45, 80)
    assert plan.step("b").revert_s == 35
    assert all(step.recovery_measured for step in plan.steps)
    assert plan.segment_s == {"baseline": 30, "a": 20, "a.recovery": 10, "b": 5, "b.recovery": 10}


def test_after_revert_leaves_the_recovery_unmeasured() -> None:
    plan = timeline({"n": "a", "d": 20}, {"n": "b", "after": "a.revert", "d": 5})
    assert starts(plan)["b"] == 20
    assert not plan.step("a").recovery_measured
    assert plan.step("a").unmeasured_because == "b starts as soon as a is reverted"
    assert "a.recovery" not in plan.segment_s  # b, then b's recovery, cover it


def test_another_fault_within_or_across_the_recovery_disturbs_it() -> None:
    plan = timeline({"n": "a", "d": 20}, {"n": "b", "at": 25, "d": 1}, {"n": "c", "at": 30.5, "d": 60})
    assert plan.step("a").unmeasured_because == "b starts within it"
    across = timeline({"n": "a", "d": 5}, {"n": "b", "with": "a", "d": 60})
    assert across.step("a").unmeasured_because == "b still acts in it"
    assert across.step("b").recovery_measured


def test_reverted_together_only_one_recovery_is_measured() -> None:
    plan = timeline({"n": "a", "d": 5}, {"n": "b", "d": 5})
    assert plan.step("a").recovery_measured
    assert plan.step("b").unmeasured_because == "a is reverted together with it"
    assert plan.segment_s == {"baseline": 30, "a": 5, "b": 5, "a.recovery": 10}


def test_order_in_the_file_does_not_matter() -> None:
    plan = timeline(
        {"n": "c", "after": "b", "d": 1}, {"n": "b", "with": "a", "d": 2}, {"n": "a", "at": 7, "d": 3}
    )
    assert starts(plan) == {"c": 19, "b": 7, "a": 7}
    assert [s.name for s in plan.steps] == ["c", "b", "a"]


def test_irreversible_fault_recovers_from_its_injection() -> None:
    plan = timeline({"n": "k", "k": "f", "at": 3}, {"n": "b", "after": "k", "d": 1})
    assert plan.step("k").revert_s is None
    assert plan.step("k").recovery_end_s == 13
    assert starts(plan)["b"] == 13
    assert plan.segment_s["k"] == 0


def test_events_of_one_instant_put_away_before_they_begin_last_in_first_out() -> None:
    plan = timeline({"n": "a", "d": 5}, {"n": "b", "d": 5}, {"n": "c", "at": 5, "d": 1}, recovery=0)
    at_five = [(e.action, e.fault) for e in plan.events if e.at_s == 5]
    assert at_five == [
        ("recovery_end", "a"),
        ("recovery_end", "b"),
        ("revert", "b"),
        ("revert", "a"),
        ("inject", "c"),
    ]


def test_no_faults_is_a_baseline_only() -> None:
    plan = timeline()
    assert (plan.end_s, plan.total_s, plan.events) == (0, 35, ())


def test_no_recovery_window_is_not_measured() -> None:
    assert timeline({"n": "a", "d": 1}, recovery=0).step("a").unmeasured_because == "phases.recovery is 0"


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (
            [{"n": "a", "after": "b", "d": 1}, {"n": "b", "after": "a", "d": 1}],
            "wait for each other: a -> b -> a",
        ),
        ([{"n": "a", "after": "zz", "d": 1}], "no fault is named 'zz'"),
        ([{"n": "k", "k": "f"}, {"n": "b", "after": "k.revert", "d": 1}], "k cannot be reverted"),
        ([{"n": "a"}], "'duration' is missing"),
        ([{"n": "k", "k": "f", "d": 3}], "it has no duration"),
    ],
)
def test_what_does_not_fit_is_refused(faults: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        timeline(*faults)


HOST = Host("r", TargetHandle(included=True, url="http://127.0.0.1:1/v1"), planning=True)


@pytest.mark.parametrize(
    ("one", "two", "refused"),
    [
        ({"d": 5, "on": "x"}, {"d": 5, "on": "x"}, True),
        ({"d": 5, "on": "x"}, {"d": 5, "on": "y"}, False),
        ({"d": 5, "on": "x"}, {"d": 5, "on": "x", "at": 5}, False),  # touching is not overlapping
        ({"d": 5, "on": "x"}, {"d": 5, "on": "x", "at": 4.9}, True),
        ({"d": 5, "on": "x", "k": "s"}, {"d": 5, "on": "x", "k": "s"}, False),
        ({"d": 5, "on": "x", "k": "s"}, {"d": 5, "on": "x"}, True),
        ({"d": 5, "on": "x"}, {"on": "x", "k": "f", "at": 4}, True),
        ({"d": 5, "on": "x"}, {"on": "x", "k": "f", "at": 5}, False),
        ({"on": "x", "k": "f"}, {"on": "x", "k": "f"}, True),
    ],
)
def test_overlap_is_refused_only_where_it_does_not_compose(
    one: dict[str, Any], two: dict[str, Any], refused: bool
) -> None:
    issues = conflicts(timeline({"n": "a", **one}, {"n": "b", **two}), HOST)
    assert bool(issues) is refused
    if refused:
        assert issues[0].path == ("faults", 1)
        assert "b and a would act on x at the same time" in issues[0].message
