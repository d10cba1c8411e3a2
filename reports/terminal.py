"""What a person reads at the end of a run, as rich renderables. Nothing here prints.

States are words as well as colours and marks, so the text is as clear in a log file as on a screen.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaosflow.core.result import FaultResult, ObjectiveResult, RunResult
from chaosflow.core.units import format_duration
from chaosflow.reports import words

STATE_STYLES = {
    "pass": "green",
    "fail": "red",
    "inconclusive": "yellow",
    "invalid": "magenta",
    "error": "magenta",
}


def verdict_table(result: RunResult) -> Group:
    """State and reason, one row per objective with its sentence, one per fault with its effect and recovery.

    Fits 80 columns. Says what was simulated, what could not be undone, and how the load generator did
    where that matters. Does not name the report's path: the caller knows where it was written.
    """
    parts: list[RenderableType] = [state_line(result), Padding(Text(result.reason), (0, 0, 0, 2))]
    if result.objectives:
        parts += [Text(), _objective_table(result)]
    if result.faults:
        parts += [Text(), _fault_table(result)]
    notes = _notes(result)
    if notes:
        parts += [Text(), *notes]
    return Group(*parts)


def state_line(result: RunResult) -> Text:
    """``✗ FAIL  demo  exit code 1, 1 min 56 s``."""
    state = words.shown_state(result)
    style = STATE_STYLES.get(state, "magenta")
    return Text.assemble(
        (f" {words.STATE_MARKS.get(state, '!')} {state.upper()} ", f"bold reverse {style}"),
        (f"  {result.name}", "bold"),
        (f"  exit code {result.exit_code}, {format_duration(result.wall_s)}", "dim"),
    )


def state_text(state: str) -> Text:
    """A state as a coloured word with its mark."""
    return Text(f"{words.STATE_MARKS.get(state, '!')} {state}", style=STATE_STYLES.get(state, "magenta"))


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for column in columns:
        table.add_column(column)
    return table


def _objective_table(result: RunResult) -> Table:
    table = _table("  state", "objective and reason")
    table.columns[0].no_wrap = True
    for objective in result.objectives:
        state = words.objective_state(objective)
        table.add_row(Text("  ") + state_text(state), _objective_text(objective))
    return table


def _objective_text(objective: ObjectiveResult) -> Text:
    text = Text(objective.text, style="bold")
    return text.append(f"\n{words.objective_sentence(objective)}", style="not bold dim")


def _fault_table(result: RunResult) -> Table:
    table = _table("  effect", "fault and evidence", "recovery", "lost")
    table.columns[0].no_wrap = True
    table.columns[3].justify = "right"
    for fault in result.faults:
        state, text = words.fault_state(fault)
        lost = words.NONE if fault.recovery is None else f"{fault.recovery.requests_lost:,}"
        effect = Text(f"  {words.STATE_MARKS[state]} {text}", style=STATE_STYLES[state])
        table.add_row(effect, _fault_text(fault), words.recovery_words(fault.recovery), lost)
    return table


def _fault_text(fault: FaultResult) -> Text:
    text = Text(fault.name, style="bold")
    text.append(f" {fault.kind}" + (" (simulated)" if fault.simulated else ""), style="not bold")
    reason = fault.error or fault.evidence
    lines = [reason] if reason else []
    if fault.recovery is not None and not fault.recovery.measured and fault.recovery.sentence:
        lines.append(f"recovery {fault.recovery.sentence}")
    return text.append("".join(f"\n{line}" for line in lines), style="not bold dim")


def _notes(result: RunResult) -> list[RenderableType]:
    notes = [Text(f"Simulated: {text}") for text in result.simulated]
    for fault in result.faults:
        if not (fault.reversible and fault.inject_begin_s is not None and not fault.reverted):
            continue
        notes.append(Text(f"! {fault.name} could not be undone and may still act.", "bold red"))
        if fault.manual_undo:
            # on lines of its own and folded, not wrapped, so that it can be copied
            notes += [Text("  Undo it by hand:"), Text(f"  {fault.manual_undo}", "bold", overflow="fold")]
    notes += [Text(f"! {text}", style="magenta") for text in result.client.lost_batches]
    notes += [Text(f"Note: {text}", style="yellow") for text in result.notes]
    return [Padding(note, (0, 0, 0, 2)) for note in notes]
