"""The result of a run that was killed before it could judge itself, from what it had written down.

A killed run proves no more than what it had measured: what was already shown to be broken is a ``fail``; all else is
``inconclusive``. A fault that may still act gives exit code 5, like everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaosflow.core.clock import NS_PER_S
from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.core.fault import Capability, FaultAtom
from chaosflow.core.journal import Journal, folder_of
from chaosflow.core.loader import Loaded, load_scenario
from chaosflow.core.probe import Reading
from chaosflow.core.result import RunResult
from chaosflow.core.segments import MarkKind
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.injector import FaultRecord
from chaosflow.orchestrator.leftovers import DAMAGE, Facts, read_batches, read_facts, read_probes
from chaosflow.orchestrator.measure import Measurement
from chaosflow.orchestrator.probing import MAX_READINGS, thinned
from chaosflow.orchestrator.recording import Summary, build_result
from chaosflow.orchestrator.rundir import Redactor, RunDir
from chaosflow.orchestrator.stopping import End, Why
from chaosflow.orchestrator.timeline import build_timeline
from chaosflow.sla.judge import judge


@dataclass(frozen=True, slots=True)
class Undone:
    """Whether the faults of a killed run are known to be gone."""

    known: bool
    pending: tuple[str, ...] = ()
    """Manual commands of what is still to be put back."""

    def in_words(self) -> str:
        """For a message that stands alone."""
        if self.pending or not self.known:
            return "its faults may still act: 'chaosflow heal' puts them back"
        return "its faults are undone"


def rebuild(folder: Path) -> RunResult:
    """The result of a killed run; writes nothing. ``write_all`` makes the reports of it.

    Raises UsageError where the run is still alive, or where the folder does not hold enough.
    """
    facts, loaded = read_facts(folder), _scenario_of(folder)
    if not facts.run:
        raise UsageError(
            str(folder), "holds no facts.jsonl of a run", "it was killed before it began: run it again"
        )
    undone = _undone(str(facts.run.get("run_id", folder.name)))
    try:
        return _rebuilt(facts, loaded, folder, undone)
    except DAMAGE as e:
        where = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
        raise UsageError(
            str(folder),
            f"what the run had written down is damaged ({where}), and no report can be made of it",
            f"{undone.in_words()}; its requests: 'chaosflow records {folder}'",
        ) from e


def _rebuilt(facts: Facts, loaded: Loaded, folder: Path, undone: Undone) -> RunResult:
    """Raises one of DAMAGE where a file holds what no run has written."""
    measure = Measurement(loaded.scenario, build_timeline(loaded.scenario, loaded.atoms))
    _replay(measure, facts, folder)
    records = [
        _record(facts.faults[name], atom) for name, atom in loaded.atoms.items() if name in facts.faults
    ]
    for record in records:
        _settle(record, undone)
    return _result(facts, loaded, measure, records, folder, undone)


def _scenario_of(folder: Path) -> Loaded:
    path = folder / "scenario.json"
    if not path.is_file():
        raise UsageError(
            str(folder),
            "holds neither a result.json nor a scenario.json",
            "name a run's folder, such as runs/<id>",
        )
    try:
        return load_scenario(path, atoms=load_atoms(), shipped=folder)
    except ChaosflowError as e:
        raise UsageError(str(path), f"cannot be read any more: {e}", "use the ChaosFlow that made it") from e


def _undone(run_id: str) -> Undone:
    """Look into the run's undo journal, if there still is one. Undoes nothing."""
    folder = folder_of(run_id)
    if not folder.exists():
        return Undone(True)  # whoever undoes last takes the journal away
    try:
        journal = Journal.open_abandoned(folder)
    except (OSError, ChaosflowError):
        return Undone(False)
    if journal is None:
        raise UsageError(
            f"run {run_id}", "is still going on", "wait for its end; it writes its report itself"
        )
    try:
        return Undone(True, tuple(entry.undo.manual for entry in journal.pending()))
    finally:
        journal.close(remove=False)


def _replay(measure: Measurement, facts: Facts, folder: Path) -> None:
    """Merge all cells in the order in which they came; the run ended with the last that is known of it.

    Without the load's begin none: counted from the machine's, a week of uptime would be 600,000 s of nothing.
    """
    begin_ns = int(facts.begin.get("begin_ns", 0))
    measure.begin_ns, measure.limits = begin_ns, facts.limits
    last_ns = begin_ns
    for mark in facts.marks:
        measure.segments.add(mark)
        if mark.kind is not MarkKind.BASELINE_BEGIN:  # which is announced ahead of its time
            last_ns = max(last_ns, mark.at_ns)
    for batch in read_batches(folder) if begin_ns else ():
        measure.merge(batch)
        measure.settle(batch.watermark_ns)
        last_ns = max(last_ns, batch.watermark_ns)
    measure.end(last_ns)


def _record(told: dict[str, Any], atom: FaultAtom) -> FaultRecord:
    capability = Capability.yes(str(told["rung"]), simulated=bool(told["simulated"]))
    kept = {k: v for k, v in told.items() if k not in ("rung", "simulated", "manual")}
    return FaultRecord(atom=atom, capability=capability, **kept)


def _settle(record: FaultRecord, undone: Undone) -> None:
    """A fault that was active at the kill was put back by the watchdog, or by a later heal, or not at all."""
    if record.reverted or record.inject_begin_ns is None or not record.atom.reversible:
        return
    if undone.known and not undone.pending:
        record.reverted, record.revert_evidence = (
            True,
            "the run was killed; its watchdog, or a later heal, put it back",
        )
    else:
        record.undo_failed = True
        record.error = record.error or "the run was killed while this fault was active"


def _result(
    facts: Facts,
    loaded: Loaded,
    measure: Measurement,
    records: list[FaultRecord],
    folder: Path,
    undone: Undone,
) -> RunResult:
    known = Summary.__dataclass_fields__
    summary = Summary(**{k: v for k, v in facts.run.items() if k in known})
    summary.events, summary.notes = facts.events, [*summary.notes, *_notes(measure, undone)]
    summary.baseline_utc = str(facts.begin.get("baseline_utc", ""))
    summary.isolated = bool(facts.begin.get("isolated", False))
    summary.timeline_s = measure.timeline.total_s
    summary.wall_s = max(0.0, (measure.ended_ns - measure.begin_ns) / NS_PER_S)
    summary.ended_utc = _ended_utc(summary, measure)
    if not measure.begin_ns:
        reason = "the run was killed before its load began; nothing was measured"
    else:
        reason = f"the run was killed after {summary.wall_s:.0f} s of load; only what it had written down is judged"
    readings = _readings(folder, measure)
    judgement = judge(measure.evidence(records))
    result = build_result(
        summary,
        End(Why.KILLED, reason),
        judgement,
        measure,
        records,
        readings,
        [],
        loaded.redacted(),
        undone.pending,
    )
    result.artifacts = RunDir(folder, Redactor([]), lambda text: None).artifacts()
    return result


def _ended_utc(summary: Summary, measure: Measurement) -> str:
    """The last moment that is known of; that of the start where there is none."""
    try:
        zero = datetime.fromisoformat(summary.baseline_utc)
    except ValueError:
        return summary.started_utc
    ended = zero + timedelta(seconds=measure.at_s(measure.ended_ns))
    return ended.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _notes(measure: Measurement, undone: Undone) -> list[str]:
    notes = []
    if not undone.known:
        notes.append(
            "whether its faults were undone is not known: its journal cannot be read; see 'chaosflow heal'"
        )
    if undone.pending:
        notes.append("its faults are not all undone: run 'chaosflow heal'")
    if measure.begin_ns and not measure.store.counts:
        notes.append("no cells were found: what the load measured is lost")
    return notes


def _readings(folder: Path, measure: Measurement) -> dict[str, list[Reading]]:
    zero_ns = measure.begin_ns + round(-measure.at_s(measure.begin_ns) * NS_PER_S)
    found: dict[str, list[Reading]] = {}
    for at_s, name, value in read_probes(folder):
        series = found.setdefault(name, [])
        series.append(Reading(zero_ns + round(at_s * NS_PER_S), name, value))
        measure.reading(series[-1])
        if len(series) > MAX_READINGS:
            series[:] = thinned(series)
    return found
