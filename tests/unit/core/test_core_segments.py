"""Which segment a request belongs to that an injection or a revert cut short."""

from __future__ import annotations

from chaosflow.core.segments import Mark, MarkKind, SegmentMap

TIMES = {
    MarkKind.INJECT_BEGIN: 200,
    MarkKind.INJECT_ACK: 220,
    MarkKind.REVERT_BEGIN: 300,
    MarkKind.REVERT_ACK: 310,
    MarkKind.RECOVERY_END: 400,
}


def segments(*names: str) -> SegmentMap:
    made = SegmentMap()
    made.add(Mark(MarkKind.BASELINE_BEGIN, 100))
    made.add(Mark(MarkKind.BASELINE_END, 200))
    for shift, name in enumerate(names):
        for kind, at_ns in TIMES.items():
            made.add(Mark(kind, at_ns + shift, name))
    return made


def test_what_an_injection_kills_before_its_acknowledgement_is_told_of_that_fault() -> None:
    """A reset ends streams at once: without a segment of their own they stood in no row and in no count."""
    assert segments("reset").of_life(150, 210) == ("reset.inject",)
    assert segments("reset").of_life(150, 230) == ("reset",), "it met the acknowledged fault too"
    assert segments("reset").of_life(150, 190) == ("baseline",)


def test_the_edges_of_a_fault_are_two() -> None:
    made = segments("reset")
    assert made.at(210) == ("reset.inject",)
    assert made.at(305) == ("reset.revert",)
    assert made.of_life(302, 305) == ("reset.revert",)
    assert [s.name for s in made.spans() if s.kind == "edge"] == ["reset.inject", "reset.revert"]


def test_a_request_in_two_edges_belongs_to_both() -> None:
    assert segments("a", "b").of_life(150, 210) == ("a.inject", "b.inject")
    assert segments("a", "b").at(210) == ("a.inject", "b.inject")
