"""All commands, and what every error becomes: one message and its exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

import chaosflow
from chaosflow.cli import history, machine, metering, planning, programs, results, running, sweeping, writing
from chaosflow.cli.interrupt import leave_at_once
from chaosflow.cli.shared import say, warn
from chaosflow.core.errors import ChaosflowError, ExitCode
from chaosflow.core.units import printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Chaos engineering and SLA-resilience testing for LLM streaming services.",
)
app.command(short_help="Run a scenario, judge it, write the report.")(running.run)
app.command(short_help="Find the value up to which a scenario holds.")(sweeping.sweep)
app.command(short_help="Say beforehand what a run will be able to decide.")(planning.plan)
app.command()(writing.validate)
app.command()(writing.schema)
app.command()(writing.init)
app.command("list")(machine.list_)
app.command(short_help="Say what can work on this machine, and why not.")(machine.doctor)
app.command(short_help="Undo what killed runs left on this machine.")(machine.heal)
app.command(short_help="Show a verdict again, write its reports anew.")(results.report)
app.command(short_help="Show which requests were slow, which failed.")(results.records)
app.command()(history.history)
app.command(short_help="Say whether run B is worse than run A.")(history.compare)
app.command(short_help="Run a suite, compare with the nights before.")(history.nightly)
app.command(short_help="Write a Grafana dashboard and Prometheus rules.")(metering.dashboards)

_OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
for program, short in (
    (programs.serve, "Serve the included engine alone."),
    (programs.proxy, "Run the fault proxy alone."),
    (programs.vgpu, "Run a Python tool on a virtual GPU."),
    (programs.worker, "Join a run's load from another machine."),
):
    app.command(context_settings=_OWN_OPTIONS, add_help_option=False, short_help=short)(program)


def _version(value: bool) -> None:
    if value:
        say(f"chaosflow {chaosflow.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Entry point: every error becomes one message and its exit code."""
    leave_at_once()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our signs shows a ? instead
    try:
        app()
    except ChaosflowError as e:
        _fail(str(e), e.exit_code)
    except Exception as e:
        if os.environ.get("CHAOSFLOW_DEBUG"):
            raise
        if isinstance(e, OSError):  # a full disk under our output, a folder that went away
            what = e.filename or "the system"
            _fail(f"{what}: {e.strerror or e}; CHAOSFLOW_DEBUG=1 shows where", ExitCode.ERROR)
        _fail(f"{type(e).__name__}: {e}; a mistake of ours: CHAOSFLOW_DEBUG=1 shows where", ExitCode.ERROR)
    sys.exit(0)


def _fail(message: str, code: ExitCode) -> NoReturn:
    warn("error", printable(message), "bold red")
    sys.exit(int(code))
