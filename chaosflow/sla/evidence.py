"""Everything a verdict is made of, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaosflow.core.segments import SegmentMap
from chaosflow.core.slo import Kind, Objective, ObjectiveVerdict, State
from chaosflow.core.slots import CellStore

EXACT_KINDS = (Kind.REQUEST_QUANTILE, Kind.EVENT_QUANTILE, Kind.SHARE, Kind.EVENT_SHARE, Kind.DRIFT)
"""The kinds that are decided by a test, and so share the run's 5 % of false alarms."""


@dataclass(frozen=True, slots=True)
class FaultFact:
    """What the orchestrator knows of one fault of the scenario."""

    name: str
    reversible: bool = True
    attempted: bool = True
    """False: the run ended before its turn came."""
    confirmed: bool = False
    """Its effect was seen, not only its call accepted."""
    error: str = ""
    recovery_measured: bool = True
    """False where the scenario goes on at once (``after: X.revert``)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run, or what there is of it so far. ``judge`` only reads it."""

    objectives: tuple[Objective, ...]
    store: CellStore
    segments: SegmentMap
    t0_ns: int
    """Second 0 of the store's cells and counts."""
    window_s: float = 60.0
    faults: tuple[FaultFact, ...] = ()
    """In the scenario's order, those that were never reached included."""
    has_baseline: bool = True
    """False where the load began within a fault: nothing before it is to be judged."""
    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Objective index -> (fail_s, pass_s) of resolved relative limits."""
    arrival_kind: str = "poisson"
    rate_per_s: float | None = None
    """The intended rate; None for closed loops."""
    ended_ns: int | None = None
    """When the run ended: closes a segment that is still open."""
    aborted: str = ""
    """The abort rule that stopped the run."""
    broken: tuple[str, ...] = ()
    """Further reasons why the measurement proves nothing: target never healthy, no steady state."""
    lost_workers: tuple[str, ...] = ()
    cap_hits: int = 0
    """Arrivals not carried out because ``max_in_flight`` was reached."""
    deadline_s: float = 60.0
    """Of one request: the limit that counts where no objective limits a time."""
    readiness: Sequence[tuple[float, bool]] = ()
    """(seconds from ``t0_ns``, ready) as the target's health check answered, in order."""
    in_flight: Mapping[int, int] = field(default_factory=dict)
    """Second -> requests under way at its end."""
    clock_jumps: int = 0
    """Requests during which the wall clock jumped by more than 1 ms."""

    @property
    def fault_names(self) -> frozenset[str]:
        return frozenset(f.name for f in self.faults)

    def segment_names(self) -> list[str]:
        """All segments the scenario plans, in order, reached or not."""
        names = ["baseline"] if self.has_baseline else []
        for fault in self.faults:
            names.append(fault.name)
            if fault.recovery_measured:
                names.append(f"{fault.name}.recovery")
        return names

    def segments_of(self, objective: Objective) -> list[str]:
        """The planned segments that an objective is judged in; for ``recovery`` one per fault."""
        if objective.kind is Kind.RECOVERY:
            # a recovery that the scenario does not watch is asked for only by its own name
            named = (objective.during or "").removesuffix(".recovery")
            return [
                f"{f.name}.recovery"
                for f in self.faults
                if recovery_holds(objective, f.name) and (f.recovery_measured or named == f.name)
            ]
        return [s for s in self.segment_names() if self.holds_for(objective, s)]

    def holds_for(self, objective: Objective, segment: str) -> bool:
        """Whether that segment is judged by that objective."""
        instants = frozenset(f.name for f in self.faults if not f.reversible)
        return objective.holds_for(segment, self.fault_names, instants)

    def alpha(self) -> float:
        """The level of one test: 5 % a run, shared by every objective in every segment it is tested in."""
        tests = sum(len(self.segments_of(o)) for o in self.objectives if o.kind in EXACT_KINDS)
        return 0.05 / max(1, tests)


def recovery_holds(objective: Objective, fault: str) -> bool:
    """Whether a recovery objective speaks of that fault."""
    return objective.during in (None, "faults", "recovery", fault, f"{fault}.recovery")


@dataclass(frozen=True, slots=True)
class Recovery:
    """How fast the service came back after one fault; mirrors chaosflow.core.result.RecoveryResult."""

    fault: str
    measured: bool
    seconds: float | None = None
    """None with ``measured``: censored, not reached within ``watched_s``."""
    watched_s: float = 0.0
    sentence: str = ""
    requests_lost: int = 0
    time_to_detect_s: float | None = None
    bucket_s: float = 1.0
    good_for_s: float = 0.0
    """How long it was good up to the end of the watch, too short to count: recovery may have begun then."""
    tokens_lost: int | None = None
    """Goodput area: what the baseline's rate would have brought from the injection to the recovery (or to the
    end of the watch), minus what came; None where not measured."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a run."""

    state: State
    reason: str
    """Why, in one sentence."""
    objectives: tuple[ObjectiveVerdict, ...] = ()
    recoveries: Mapping[str, Recovery] = field(default_factory=dict)
    """By fault."""
    notes: tuple[str, ...] = ()
    """Warnings a reader must know that decide nothing."""
