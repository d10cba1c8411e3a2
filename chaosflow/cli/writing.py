"""Commands for whoever writes a scenario. None of them touches anything but the file they are told to write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import orjson
import typer

from chaosflow.cli.shared import ScenarioArgument, SetOption, StrictOption, err, load, say
from chaosflow.core.errors import UsageError
from chaosflow.core.schema import json_schema
from chaosflow.core.template import init_text
from chaosflow.core.units import counted, format_duration
from chaosflow.orchestrator.catalogue import load_atoms
from chaosflow.reports.schema import result_schema


def validate(scenario: ScenarioArgument, overrides: SetOption = None, strict: StrictOption = False) -> None:
    """Check a scenario; print every problem at once. Touches nothing."""
    prepared = load(scenario, overrides, strict)
    faults = len(prepared.loaded.scenario.faults)
    say(
        f"{prepared.loaded.path}: valid; {counted(faults, 'fault')}, {format_duration(prepared.timeline.total_s)}"
    )


def schema(
    result: Annotated[bool, typer.Option("--result", help="That of result.json instead.")] = False,
) -> None:
    """Print the JSON schema of scenarios, for editors."""
    found = result_schema() if result else json_schema(load_atoms())
    sys.stdout.write(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n")


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("scenario.yaml"),
    url: Annotated[
        str, typer.Option(help="Your server, e.g. http://127.0.0.1:8000/v1; default: the included engine.")
    ] = "",
) -> None:
    """Write a commented scenario to start from. Never overwrites."""
    if url and not url.startswith(("http://", "https://")):
        raise UsageError(
            f"--url {url}", "does not start with http:// or https://", f"write --url http://{url}"
        )
    if url and not urlsplit(url).path.strip("/"):
        url = url.rstrip("/") + "/v1"
        err.print(
            f"taking {url}: the API of an OpenAI-compatible server stands below its version path",
            soft_wrap=True,
            highlight=False,
        )
    try:
        with path.open("x") as file:
            file.write(init_text(url or None))
    except FileExistsError:
        raise UsageError(str(path), "is there already", "choose another name") from None
    except OSError as e:
        raise UsageError(str(path), f"cannot be written ({e.strerror})") from e
    say(f"wrote {path}; next: chaosflow doctor {path}, then chaosflow run {path}")
