"""Rows of segments: an edge is shown where a request fell into it, and only there."""

from __future__ import annotations

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.result import SegmentResult
from chaosflow.core.segments import Mark, MarkKind, SegmentMap
from chaosflow.core.slots import CellStore, Count
from chaosflow.orchestrator.collect import Axis, segment_results

MARKS = (
    (MarkKind.BASELINE_BEGIN, 0.0),
    (MarkKind.BASELINE_END, 10.0),
    (MarkKind.INJECT_BEGIN, 10.0),
    (MarkKind.INJECT_ACK, 10.5),
    (MarkKind.REVERT_BEGIN, 20.0),
    (MarkKind.REVERT_ACK, 20.1),
    (MarkKind.RECOVERY_END, 30.0),
)


def rows(store: CellStore) -> list[SegmentResult]:
    segments = SegmentMap()
    for kind, at_s in MARKS:
        segments.add(Mark(kind, round(at_s * NS_PER_S), "" if "baseline" in kind else "reset"))
    return segment_results(store, segments, Axis(0), -NS_PER_S, 30 * NS_PER_S)


def test_requests_killed_in_the_injection_have_a_row() -> None:
    store = CellStore()
    store.counts.add((10, "reset.inject"), Count(resolved=7, failed=6))
    store.outcomes["reset.inject", "reset"] = 6
    found = rows(store)
    assert [s.name for s in found] == ["warmup", "baseline", "reset.inject", "reset", "reset.recovery"]
    edge = found[2]
    assert (edge.kind, edge.fault, edge.resolved, edge.failed) == ("edge", "reset", 7, 6)
    assert (edge.begin_s, edge.end_s) == (10.0, 10.5)
    assert edge.outcomes == {"reset": 6}


def test_an_empty_edge_is_no_row() -> None:
    assert "edge" not in [s.kind for s in rows(CellStore())]
