"""Commands about this machine: what can work here, and what killed runs left."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from chaosflow import listing
from chaosflow.cli.shared import SetOption, load, out, say, warn
from chaosflow.core.errors import ExitCode, UsageError
from chaosflow.orchestrator import plan as planning
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.orchestrator.heal import heal_all
from chaosflow.orchestrator.prepare import hiding
from chaosflow.orchestrator.target import ask_once


def list_(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="faults, probes or scenarios.")] = "",
) -> None:
    """List what can be used: faults, probes or scenarios."""
    tables = {"faults": listing.faults, "probes": listing.probes, "scenarios": listing.scenarios}
    if what not in tables:
        cause = "there is no such list" if what else "does not say what to list"
        raise UsageError(f"list {what}".strip(), cause, f"one of: {', '.join(tables)}")
    out.print(tables[what]())


def doctor(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Only what this scenario needs.")] = "",
    overrides: SetOption = None,
) -> None:
    """Say which faults and probes can work on this machine, and why the others cannot. Reads only.

    With a scenario for your own server also whether that answers now.
    """
    if not scenario:
        out.print(listing.doctor())
        return
    prepared = load(scenario, overrides, strict=False)
    with hiding(prepared.loaded):
        wanted = prepared.loaded.scenario
        rows = planning.capability_table(wanted, prepared.loaded.atoms, prepared.probes)
        if wanted.target.url is not None:
            answer = asyncio.run(ask_once(wanted.target, wanted.load.unix_socket))
            rows.insert(0, planning.Row("target", wanted.target.url, "health", answer))
        out.print(listing.capabilities(rows))
    if any(row.what != "probe" and not row.capability.ok for row in rows):
        raise typer.Exit(int(ExitCode.USAGE))


def heal() -> None:
    """Undo whatever killed runs left behind on this machine. Leaves live runs alone."""
    healed = asyncio.run(heal_all(load_atoms()))
    for undo in healed.undone:
        say(f"undone: {undo.kind} {undo.name} (run {undo.run_id})")
    for reason in healed.reasons:
        warn("not undone", reason, "bold red", copied=True)
    if not healed.runs and not healed.reasons:
        say("nothing to undo")
    if healed.failed or healed.reasons:
        raise typer.Exit(int(ExitCode.NOT_UNDONE))
