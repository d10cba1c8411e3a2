"""All commands, and what every error becomes: one message and its exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer
from rich.text import Text

import chaosflow
from chaosflow.cli import history, machine, metering, planning, programs, results, running, sweeping, writing
from chaosflow.cli.interrupt import leave_at_once
from chaosflow.cli.shared import err, say
from chaosflow.core.errors import ChaosflowError, ExitCode
from chaosflow.core.units import printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Chaos engineering and SLA-resilience testing for LLM streaming services.",
)
app.command()(running.run)
app.command()(sweeping.sweep)
app.command()(planning.plan)
app.command()(writing.validate)
app.command()(writing.schema)
app.command()(writing.init)
app.command("list")(machine.list_)
app.command()(machine.doctor)
app.command()(machine.heal)
app.command()(results.report)
app.command()(results.records)
app.command()(history.history)
app.command()(history.compare)
app.command()(history.nightly)
app.command()(metering.dashboards)

_OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
for program in (programs.serve, programs.proxy, programs.vgpu, programs.worker):
    app.command(context_settings=_OWN_OPTIONS, add_help_option=False)(program)


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
        _fail(f"{type(e).__name__}: {e}; a mistake of ours: CHAOSFLOW_DEBUG=1 shows where", ExitCode.ERROR)
    sys.exit(0)


def _fail(message: str, code: ExitCode) -> NoReturn:
    err.print(Text.assemble(("error: ", "bold red"), printable(message)), soft_wrap=True)
    sys.exit(int(code))
