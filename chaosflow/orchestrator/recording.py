"""The end of a run: verdict, result, reports, exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import chaosflow
from chaosflow.core.clock import utc_now
from chaosflow.core.errors import ChaosflowError, ExitCode
from chaosflow.core.journal import state_dir
from chaosflow.core.probe import Reading
from chaosflow.core.result import Event, RunResult
from chaosflow.core.slo import State
from chaosflow.orchestrator import collect
from chaosflow.orchestrator.curves import recovery_curves
from chaosflow.orchestrator.environment import fingerprint
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.orchestrator.measure import Measurement
from chaosflow.orchestrator.plan import Row
from chaosflow.orchestrator.stopping import End, Why
from chaosflow.reports.writer import write_all
from chaosflow.sla.evidence import Judgement
from chaosflow.sla.judge import judge

MAX_EVENTS = 2000


@dataclass(slots=True)
class Summary:
    """What is known of a run apart from its measurement."""

    run_id: str
    started_utc: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    simulated: list[str] = field(default_factory=list)
    """What is not real in this run, in words."""
    left_out: list[str] = field(default_factory=list)
    """Probes that cannot work here."""
    notes: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    baseline_utc: str = ""
    ended_utc: str = ""
    """Empty: now."""
    wall_s: float = 0.0
    timeline_s: float = 0.0
    isolated: bool = False

    def look_around(self, scenario: Mapping[str, object], rows: Sequence[Row]) -> None:
        """Note where the run happens and what of it is simulated. Reads only."""
        self.environment = {"target": _what_was_tested(scenario)} | fingerprint()
        self.left_out = [
            f"probe {r.name} was left out: {r.capability.reason}"
            for r in rows
            if r.what == "probe" and not r.capability.ok
        ]
        self.simulated = _simulated_engine(scenario) + [
            f"{r.name} ({r.kind}): {r.capability.rung or 'virtual device'}"
            for r in rows
            if r.capability.simulated
        ]

    def event(self, at_s: float, what: str, text: str) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events.append(Event(at_s=round(at_s, 3), what=what, text=text))


def judgement_of(
    end: End, measure: Measurement, records: Sequence[FaultRecord], lost: Sequence[str]
) -> Judgement:
    """The verdict; a run that was ended early can at most be what it was ended for."""
    broken = [end.text] if end.why in (Why.BAD_BASELINE, Why.LOST) else []
    evidence = measure.evidence(
        records, aborted=end.text if end.why is Why.ABORTED else "", broken=broken, lost=lost
    )
    return judge(evidence)


def state_and_reason(end: End, judgement: Judgement) -> tuple[State, str]:
    """An error of ours beats every verdict; an interrupted run has decided nothing that it did not decide."""
    if end.why is Why.ERROR:
        return State.ERROR, end.text
    if end.why is Why.NOT_CONFIRMED:
        return State.INVALID, end.text
    if end.why in (Why.INTERRUPTED, Why.TERMINATED):
        state = State.FAIL if judgement.state is State.FAIL else State.INCONCLUSIVE
        return state, f"{end.text}; everything was undone"
    if end.why is Why.CUT and judgement.state in (State.PASS, State.INCONCLUSIVE):
        return State.INCONCLUSIVE, end.text  # what was left out might have failed
    if end.why is Why.KILLED:
        broken = [v for v in judgement.objectives if v.state is State.FAIL]
        also = f"; by then {broken[0].objective.text} was broken {broken[0].sentence}" if broken else ""
        return State.FAIL if broken else State.INCONCLUSIVE, end.text + also
    return judgement.state, judgement.reason


def exit_code(end: End, state: State, not_undone: Sequence[str]) -> ExitCode:
    """Not undone beats all; then the signal; then the verdict."""
    if not_undone:
        return ExitCode.NOT_UNDONE
    if end.why is Why.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if end.why is Why.TERMINATED:
        return ExitCode.TERMINATED
    return state.exit_code


def build_result(
    summary: Summary,
    end: End,
    judgement: Judgement,
    measure: Measurement,
    records: Sequence[FaultRecord],
    readings: Mapping[str, list[Reading]],
    lost: Sequence[str],
    scenario: dict[str, object],
    not_undone: Sequence[str],
) -> RunResult:
    """Everything in one place; secrets are redacted by the caller."""
    state, reason = state_and_reason(end, judgement)
    baseline_ns = measure.segments.baseline_begin or measure.ended_ns
    axis = collect.Axis(baseline_ns)
    segments = (
        collect.segment_results(measure.store, measure.segments, axis, measure.begin_ns, measure.ended_ns)
        if measure.begin_ns
        else []
    )
    store_zero_s = axis.s(measure.begin_ns) if measure.begin_ns else 0.0
    series = measure.finish_series()
    evidence = measure.evidence(records)
    return RunResult(
        run_id=summary.run_id,
        name=str(scenario.get("name", "")),
        description=str(scenario.get("description", "")),
        state=state.word,
        exit_code=int(exit_code(end, state, not_undone)),
        reason=reason,
        aborted=end.text if end.why is Why.ABORTED else "",
        killed=end.why is Why.KILLED,
        started_utc=summary.started_utc,
        ended_utc=summary.ended_utc or utc_now(),
        baseline_utc=summary.baseline_utc,
        wall_s=round(summary.wall_s, 3),
        timeline_s=round(summary.timeline_s, 3),
        seed=int(str(scenario.get("seed", 0))),
        command=summary.command,
        version=chaosflow.__version__,
        scenario=scenario,
        environment=summary.environment | {"own network namespace": "yes" if summary.isolated else "no"},
        simulated=summary.simulated,
        objectives=collect.objective_results(judgement.objectives, store_zero_s),
        segments=segments,
        faults=collect.fault_results(
            records, judgement.recoveries, axis, recovery_curves(evidence, records, judgement.recoveries)
        ),
        series=series.result(),
        heat=series.heat(),
        worst=collect.worst_results(measure.store.worst, store_zero_s),
        probes=collect.probe_results(readings, axis),
        client=collect.client_health(measure.store, measure.health, lost),
        events=summary.events,
        notes=[*summary.notes, *summary.left_out, *judgement.notes, *_cut_short(records)],
        totals={
            "requests": measure.store.counts.total("*").resolved,
            "tokens": measure.store.counts.total("*").tokens,
        },
    )


def _cut_short(records: Sequence[FaultRecord]) -> list[str]:
    return [f"fault {r.name} {r.cut_short}" for r in records if r.confirmed and r.cut_short]


def _simulated_engine(scenario: Mapping[str, object]) -> list[str]:
    """The included engine computes no tokens: every time it shows is that of a model."""
    target = scenario.get("target")
    engine = target.get("engine") if isinstance(target, dict) else None
    if not isinstance(engine, dict) or engine.get("backend") != "sim":
        return []
    return [f"the engine: {engine['model']} on a virtual {engine['gpu']}, timed by a roofline"]


def _what_was_tested(scenario: Mapping[str, object]) -> str:
    target = scenario.get("target")
    if not isinstance(target, dict):
        return ""
    engine = target.get("engine")
    if isinstance(engine, dict):
        return f"the included engine ({engine['backend']}, {engine['gpu']}, {engine['model']})"
    return f"{target.get('url')}, model {target.get('model', 'the first it lists')}"


def write_reports(result: RunResult, folder: Path) -> tuple[Path, dict[str, str], str]:
    """Write every report; where the disk is full, beside the undo journals (in memory).

    Returns folder, names, and why none could be written (empty when they were).
    """
    try:
        return folder, write_all(result, folder), ""
    except ChaosflowError as e:
        spare = state_dir().parent / "chaosflow-results" / result.run_id
        result.notes.append(f"{e}; the reports are in {spare}")
        try:
            spare.mkdir(parents=True, exist_ok=True)
            return spare, write_all(result, spare), ""
        except (OSError, ChaosflowError) as again:
            result.notes.pop()
            return folder, {}, f"{e}; nor to {spare}: {again}"
