"""What happened during a watch, told as if it had been planned: a timeline, and the steps of a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.scenario import FaultStep
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.orchestrator.plan import Row
from chaosflow.orchestrator.timeline import Step, Timeline

MIN_JUDGED_S = 1.0
NEVER_NS = 1 << 62


@dataclass(slots=True)
class Seen:
    """A fault of this watch."""

    record: FaultRecord
    recovery_begin_ns: int | None = None
    recovery_end_ns: int | None = None
    alone: bool = True
    """No other fault acted when its recovery began."""

    @property
    def recovering(self) -> bool:
        return self.recovery_begin_ns is not None and self.recovery_end_ns is None


@dataclass(slots=True)
class Happened:
    """Moments are monotonic ns; it is a measure.Schedule, too."""

    warmup_s: float
    baseline_begin_ns: int = 0
    zero_ns: int = NEVER_NS
    """The baseline's end."""
    end_ns: int = NEVER_NS
    within_fault: bool = False
    """The watch began inside a fault: there is no baseline."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """By the fault's name, in order."""

    @property
    def records(self) -> list[FaultRecord]:
        return [seen.record for seen in self.seen.values()]

    def rows(self) -> list[Row]:
        """Its faults as lines of a capability table."""
        return [Row("fault", n, s.record.atom.kind, s.record.capability) for n, s in self.seen.items()]

    def steps(self) -> list[FaultStep]:
        """Its faults as a scenario would say them, without their times.

        Those were measured and not set (``faults`` of the result has them): two runs of one test are comparable.
        """
        return [_as_step(record) for record in self.records]

    def timeline(self) -> Timeline:
        """Seconds count from the baseline's end; a baseline or recovery under a second is not judged."""
        baseline_s = -self._s(self.baseline_begin_ns)
        judged = not self.within_fault and baseline_s >= MIN_JUDGED_S
        return Timeline(
            warmup_s=self.warmup_s,
            baseline_s=baseline_s if judged else 0.0,
            steps=tuple(self._step(name, seen) for name, seen in self.seen.items()),
            end_s=self._s(self.end_ns),
            segment_s={},
            events=(),
        )

    def _s(self, at_ns: int | None) -> float:
        return 0.0 if at_ns is None else (at_ns - self.zero_ns) / NS_PER_S

    def _step(self, name: str, seen: Seen) -> Step:
        begin_ns, end_ns = seen.recovery_begin_ns, seen.recovery_end_ns or self.end_ns
        watched_s = 0.0 if begin_ns is None else (end_ns - begin_ns) / NS_PER_S
        return Step(
            name=name,
            atom=seen.record.atom,
            inject_s=max(0.0, self._s(seen.record.inject_begin_ns)),
            revert_s=self._s(begin_ns or self.end_ns) if seen.record.atom.reversible else None,
            recovery_end_s=self._s(end_ns),
            recovery_measured=seen.alone and watched_s >= MIN_JUDGED_S,
        )


def _as_step(record: FaultRecord) -> FaultStep:
    params = record.atom.model_dump(mode="json", by_alias=True, exclude_none=True)
    return FaultStep.model_construct(name=record.name, type=record.atom.kind, params=params)
