"""The one-line grammar of objectives and abort rules."""

from __future__ import annotations

import pytest

from chaosflow.core.grammar import parse_abort, parse_objective
from chaosflow.core.slo import Kind, probes_needed


@pytest.mark.parametrize(
    ("text", "kind", "limit"),
    [
        ("ttft.p95 <= 200ms", Kind.REQUEST_QUANTILE, 0.2),
        ("tpot.p99 <= 40ms during faults", Kind.REQUEST_QUANTILE, 0.04),
        ("itl.p99.9 <= 1s", Kind.EVENT_QUANTILE, 1.0),
        ("gap.p99 <= 2.5x baseline", Kind.EVENT_QUANTILE, 2.5),
        ("stalls <= 0.1%", Kind.EVENT_SHARE, 0.001),
        ("burstiness <= 10%", Kind.EVENT_SHARE, 0.1),
        ("error_rate <= 1%", Kind.SHARE, 0.01),
        ("goodput >= 99%", Kind.SHARE, 0.99),
        ("throughput.drift within 15%", Kind.DRIFT, 0.15),
        ("recovery <= 30s during jitter", Kind.RECOVERY, 30.0),
        ("health_truth <= 5s", Kind.HEALTH, 5.0),
        ("time_to_unready <= 10s during freeze", Kind.HEALTH, 10.0),
    ],
)
def test_every_kind_of_objective(text: str, kind: Kind, limit: float) -> None:
    objective = parse_objective(text)
    assert objective.kind is kind
    assert objective.limit == pytest.approx(limit)
    assert objective.text == text


def test_a_stall_is_a_second_and_a_burst_a_millisecond_unless_said_otherwise() -> None:
    assert parse_objective("stalls <= 1%").threshold_s == 1.0
    assert parse_objective("stalls.500ms <= 1%").threshold_s == 0.5
    assert parse_objective("burstiness <= 1%").threshold_s == 0.001
    assert parse_objective("burstiness.2ms <= 1%").threshold_s == 0.002
    assert parse_objective("stalls <= 1%").allowed_share == 0.01


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stalls >= 1%", "takes '<='"),
        ("stalls.500 <= 1%", "has no unit"),
        ("burstiness <= 10ms", "is not a share"),
        ("health_truth >= 99%", "takes '<='"),
        ("health_truth.p95 <= 5s", "takes no '.p95'"),
        ("time_to_unredy <= 5s", "did you mean 'time_to_unready'"),
        ("ttft <= 200ms", "needs a percentile"),
        ("ttft.p95 <= 200", "has no unit"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        parse_objective(text)


@pytest.mark.parametrize("text", ["tpot.p95 > 1s for 10s", "stalls > 1% for 10s", "goodput > 1% for 10s"])
def test_a_rule_that_could_never_stop_a_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="can abort a run"):
        parse_abort(text)


def test_objectives_say_which_probe_they_read() -> None:
    assert probes_needed([parse_objective("health_truth <= 5s")]) == {"health": "health_truth <= 5s"}
    assert probes_needed([parse_objective("recovery <= 5s")]) == {}
