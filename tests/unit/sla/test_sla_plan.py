"""What cannot pass as planned, said before the run."""

from __future__ import annotations

from chaosflow.core.grammar import parse_objective
from chaosflow.core.scenario import ClosedArrival, ConstantArrival, LoadPlan, PoissonArrival
from chaosflow.sla.plan import Shortfall, planned_n, shortfalls

SEGMENTS = {"baseline": [(5.0, 65.0)], "jitter": [(65.0, 85.0)], "jitter.recovery": [(85.0, 95.0)]}


def plan(rate: float = 4.0, output_tokens: int = 64) -> LoadPlan:
    return LoadPlan(arrival=PoissonArrival(kind="poisson", rate_per_s=rate), output_tokens=output_tokens)


def short(*texts: str, load: LoadPlan | None = None) -> list[Shortfall]:
    return shortfalls([parse_objective(t) for t in texts], SEGMENTS, load or plan(), frozenset({"jitter"}))


def test_a_p95_needs_59_and_a_p99_299() -> None:
    found = short("ttft.p95 <= 200ms", "e2e.p99 <= 2s")
    assert [(s.segment, s.planned, s.needed) for s in found] == [
        ("jitter.recovery", 40, 59),
        ("baseline", 240, 299),
        ("jitter", 80, 299),
        ("jitter.recovery", 40, 299),
    ]
    assert "lengthen jitter.recovery to 15 s or raise the load" in found[0].text


def test_gaps_count_events_and_not_requests() -> None:
    assert planned_n(parse_objective("gap.p99 <= 50ms"), [(5.0, 15.0)], plan()) == 4 * 10 * 63
    assert short("gap.p99 <= 50ms") == []


def test_closed_loops_make_no_claim() -> None:
    load = LoadPlan(arrival=ClosedArrival(kind="closed", users=1))
    assert planned_n(parse_objective("ttft.p99 <= 1s"), [(0.0, 1.0)], load) is None
    assert short("ttft.p99 <= 1s", load=load) == []


def test_a_cap_on_requests_is_counted() -> None:
    load = LoadPlan(arrival=ConstantArrival(kind="constant", rate_per_s=100), max_requests=50)
    assert planned_n(parse_objective("ttft.p95 <= 1s"), [(0.0, 60.0)], load) == 50


def test_shares_of_zero_need_a_single_request() -> None:
    assert short("error_rate <= 0%") == []
    assert [s.needed for s in short("error_rate <= 1%")] == [299, 299, 299]


def test_a_relative_limit_needs_its_baseline() -> None:
    found = short("ttft.p99 <= 2x baseline during jitter")
    assert {s.segment for s in found} == {"jitter", "baseline"}


def test_a_drift_that_the_traffic_cannot_resolve_is_named() -> None:
    found = short("throughput.drift within 15% during baseline")
    assert found[0].segment == "baseline"
    assert short("throughput.drift within 15% during baseline", load=plan(40.0)) == []


def test_recovery_needs_a_baseline_and_time_to_watch() -> None:
    assert short("recovery <= 10s") == []
    found = shortfalls(
        [parse_objective("recovery <= 10s")],
        {"baseline": [(0.0, 10.0)], "jitter.recovery": [(20.0, 22.0)]},
        plan(),
        frozenset({"jitter"}),
    )
    assert [s.segment for s in found] == ["baseline", "jitter.recovery"]


def test_a_fault_that_is_over_in_an_instant_says_so() -> None:
    kill = frozenset({"kill"})
    assert shortfalls([parse_objective("ttft.p95 <= 1s")], {"kill": []}, plan(), kill) == []
    named = parse_objective("ttft.p95 <= 1s during kill")
    found = shortfalls([named], {"kill": []}, plan(), kill)
    assert "over in an instant" in found[0].text
