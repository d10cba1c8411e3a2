"""What the commands share: the two consoles, common options, and how a scenario is loaded and told of."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from chaosflow.orchestrator.prepare import Prepared, prepare, require_no_warnings
from chaosflow.views import LiveView, PatientConsole, PlainView

out, err = PatientConsole(), PatientConsole(stderr=True)

ScenarioArgument = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the bare name of a shipped scenario.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override one value, e.g. load.arrival.rate_per_s=40. Repeatable."
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
RunsDirOption = Annotated[Path, typer.Option(help="Folder for the results.")]
HistoryOption = Annotated[
    Path | None, typer.Option("--history", help="The history file; default: history.sqlite below --runs-dir.")
]
A_RUN = "A folder, an id below --runs-dir or the beginning of one, or 'latest'."
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help=A_RUN)]


def load(source: str, overrides: list[str] | None, strict: bool) -> Prepared:
    """A valid scenario; prints its warnings. Raises UsageError; touches nothing."""
    prepared = prepare(source, overrides or [])
    for warning in prepared.warnings:
        warn("warning", warning)
    if strict:
        require_no_warnings(prepared)
    return prepared


def warn(kind: str, text: str, style: str = "yellow", *, copied: bool = False) -> None:
    """``kind: text`` on stderr, wrapped between words on a terminal; not what is to be ``copied``, a command."""
    begin = f"{kind}: "
    shown = text if copied else wrapped(err, text, len(begin))
    err.print(Text.assemble((begin, style), shown), soft_wrap=True)


def wrapped(console: Console, text: str, taken: int = 0) -> str:
    """``text`` broken between words where the console is a terminal, ``taken`` columns into a line; else as it is.

    A word longer than a line (a path, an address) stays whole, so that it can be copied.
    """
    if not console.is_terminal:
        return text
    first, *others = text.split("\n")
    lines = [_filled(" " * taken + first, console.width)[taken:]]
    return "\n".join(lines + [_filled(line, console.width) for line in others])


def _filled(line: str, width: int) -> str:
    wrapper = textwrap.TextWrapper(max(20, width), break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(line)


def view_of(prepared: Prepared, plain: bool, title: str = "") -> LiveView | PlainView:
    """What a person sees of one run; ``title`` stands in place of the scenario's name."""
    if out.is_terminal and not plain:
        return LiveView(out, title or prepared.loaded.scenario.name, prepared.timeline.total_s)
    return PlainView(out)


def say(text: str) -> None:
    """A line on stdout as it stands: unwrapped, uncoloured."""
    out.print(text, soft_wrap=True, highlight=False, markup=False)
