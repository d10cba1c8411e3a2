"""Which segment a moment, or a request's whole life, belongs to (docs/glossary.md "segment", "cohort").

Everything is built from marks: what happened, to which fault, at which monotonic ns. The orchestrator
makes them as things happen and announces them to the load workers; both then see the same segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class MarkKind(StrEnum):
    BASELINE_BEGIN = "baseline_begin"
    BASELINE_END = "baseline_end"
    INJECT_BEGIN = "inject_begin"
    INJECT_ACK = "inject_ack"
    REVERT_BEGIN = "revert_begin"
    REVERT_ACK = "revert_ack"
    RECOVERY_END = "recovery_end"


@dataclass(frozen=True, slots=True)
class Mark:
    kind: MarkKind
    at_ns: int
    fault: str = ""
    reversible: bool = True

    def to_wire(self) -> list[str | int | bool]:
        return [self.kind.value, self.at_ns, self.fault, self.reversible]

    @classmethod
    def from_wire(cls, wire: list[str | int | bool]) -> Mark:
        return cls(MarkKind(str(wire[0])), int(wire[1]), str(wire[2]), bool(wire[3]))


@dataclass(frozen=True, slots=True)
class Span:
    """One segment on the time axis; ``end_ns`` None = still going on."""

    name: str
    kind: str
    """``warmup``, ``baseline``, ``fault``, ``recovery`` or ``edge``."""
    begin_ns: int
    end_ns: int | None = None
    fault: str = ""

    def holds(self, at_ns: int) -> bool:
        return self.begin_ns <= at_ns and (self.end_ns is None or at_ns < self.end_ns)

    def touches(self, begin_ns: int, end_ns: int) -> bool:
        return self.begin_ns <= end_ns and (self.end_ns is None or begin_ns <= self.end_ns)


@dataclass(slots=True)
class _FaultTimes:
    reversible: bool = True
    inject_begin: int | None = None
    inject_ack: int | None = None
    revert_begin: int | None = None
    revert_ack: int | None = None
    recovery_end: int | None = None


@dataclass(slots=True)
class SegmentMap:
    """The marks so far, as spans. Marks of one fault may come in any order."""

    baseline_begin: int | None = None
    baseline_end: int | None = None
    faults: dict[str, _FaultTimes] = field(default_factory=dict)
    _spans: list[Span] | None = None

    def add(self, mark: Mark) -> None:
        self._spans = None
        if mark.kind is MarkKind.BASELINE_BEGIN:
            self.baseline_begin = mark.at_ns
        elif mark.kind is MarkKind.BASELINE_END:
            self.baseline_end = mark.at_ns
        else:
            times = self.faults.setdefault(mark.fault, _FaultTimes(mark.reversible))
            setattr(times, mark.kind.value, mark.at_ns)

    def spans(self) -> list[Span]:
        """All segments, in order of their begin."""
        if self._spans is None:
            found: list[Span] = []
            if self.baseline_begin is not None:
                found.append(Span("baseline", "baseline", self.baseline_begin, self.baseline_end))
            for name, times in self.faults.items():
                found += _spans_of(name, times)
            self._spans = sorted(found, key=lambda s: s.begin_ns)
        return self._spans

    def at(self, at_ns: int) -> tuple[str, ...]:
        """Segments of a moment (a gap, a token): every active fault, else recovery, baseline, …

        A moment within an edge belongs to that edge alone (``X.inject``, ``X.revert``): shown, not judged.
        """
        if self.baseline_begin is None or at_ns < self.baseline_begin:
            return ("warmup",)
        here = [s for s in self.spans() if s.holds(at_ns)]
        if edges := tuple(s.name for s in here if s.kind == "edge"):
            return edges
        faults = tuple(s.name for s in here if s.kind == "fault")
        if faults:
            return faults
        recoveries = [s for s in here if s.kind == "recovery"]
        if recoveries:
            return (recoveries[-1].name,)  # the one reverted last
        if any(s.kind == "baseline" for s in here):
            return ("baseline",)
        return ("between",)

    def of_life(self, sched_ns: int, resolved_ns: int) -> tuple[str, ...]:
        """Segments of a request: every fault its life touches, else that of its scheduled time.

        A life that touches only an edge of a fault belongs to that edge: what an injection kills before it
        is acknowledged is this fault's doing.
        """
        if self.baseline_begin is None or sched_ns < self.baseline_begin:
            return ("warmup",)
        touched = [
            s for s in self.spans() if s.kind in ("fault", "edge") and s.touches(sched_ns, resolved_ns)
        ]
        faults = tuple(s.name for s in touched if s.kind == "fault")
        if faults:
            return faults
        return tuple(s.name for s in touched) or self.at(sched_ns)


def edges_of(fault: str) -> tuple[str, str]:
    """The names of a fault's two edges: injection and revert, each from its begin to its acknowledgement."""
    return f"{fault}.inject", f"{fault}.revert"


def _spans_of(name: str, times: _FaultTimes) -> list[Span]:
    if times.inject_begin is None:
        return []
    injection, revert = edges_of(name)
    if not times.reversible:
        # the deed is the whole fault: what it kills resolves before it is acknowledged
        spans = [Span(name, "fault", times.inject_begin, times.inject_ack, name)]
        if times.inject_ack is not None:
            spans.append(Span(f"{name}.recovery", "recovery", times.inject_ack, times.recovery_end, name))
        return spans
    spans = [Span(injection, "edge", times.inject_begin, times.inject_ack, name)]
    if times.inject_ack is not None:
        spans.append(Span(name, "fault", times.inject_ack, times.revert_begin, name))
    if times.revert_begin is not None:
        spans.append(Span(revert, "edge", times.revert_begin, times.revert_ack, name))
    if times.revert_ack is not None:
        spans.append(Span(f"{name}.recovery", "recovery", times.revert_ack, times.recovery_end, name))
    return spans
