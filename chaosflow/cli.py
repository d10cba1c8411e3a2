"""The command ``chaosflow``: the only place that prints and exits."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import orjson
import typer
from rich.text import Text

import chaosflow
from chaosflow import dry, listing, scenarios_dir
from chaosflow.core.errors import ChaosflowError, ExitCode, ScenarioError, UsageError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loader import Loaded, load_scenario
from chaosflow.core.registry import Registry
from chaosflow.core.schema import json_schema
from chaosflow.core.template import init_text
from chaosflow.core.units import printable
from chaosflow.engine.infer.models import MODELS
from chaosflow.gpu.specs import GPUS
from chaosflow.load import query
from chaosflow.orchestrator import plan as planning
from chaosflow.orchestrator.catalogue import load_atoms, load_probes
from chaosflow.orchestrator.guards import check_guards
from chaosflow.orchestrator.heal import heal_all
from chaosflow.orchestrator.run import Ended, Options, Run
from chaosflow.orchestrator.timeline import Timeline, build_timeline, conflicts
from chaosflow.reports.schema import result_schema
from chaosflow.reports.terminal import verdict_table
from chaosflow.reports.writer import load_result, write_all
from chaosflow.views import LiveView, PatientConsole, PlainView

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Chaos engineering and SLA-resilience testing for LLM streaming services.",
)
out, err = PatientConsole(), PatientConsole(stderr=True)

ScenarioArgument = Annotated[
    str, typer.Argument(help="A scenario file, or the bare name of a shipped scenario.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override one value, e.g. load.arrival.rate_per_s=40. Repeatable."
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]


def _load(
    source: str, overrides: list[str] | None, strict: bool
) -> tuple[Loaded, Timeline, Registry[FaultAtom]]:
    """A valid scenario and its timeline; prints warnings. Raises UsageError; touches nothing."""
    atoms = load_atoms()
    known = {
        "probes": load_probes().names(),
        "target.engine.gpu": list(GPUS),
        "target.engine.model": list(MODELS),
    }
    loaded = load_scenario(
        source, atoms=atoms, shipped=scenarios_dir(), overrides=overrides or [], known_values=known
    )
    with _hiding(loaded):
        timeline = build_timeline(loaded.scenario, loaded.atoms)
        guarded = check_guards(loaded.scenario, timeline)
        issues = [*guarded.issues, *conflicts(timeline, planning.planning_host(loaded.scenario))]
        if issues:
            raise ScenarioError(loaded.problems(issues))
        warnings = [*guarded.warnings, *planning.undecidable(loaded.scenario, timeline)]
    for warning in warnings:
        err.print(Text.assemble(("warning: ", "yellow"), loaded.hide(warning)), soft_wrap=True)
    if strict and warnings:
        raise UsageError(str(loaded.path), f"{len(warnings)} warning(s), which --strict makes errors")
    return loaded, timeline, atoms


@contextlib.contextmanager
def _hiding(loaded: Loaded) -> Iterator[None]:
    """An error that leaves this block shows no secret of the scenario."""
    try:
        yield
    except ChaosflowError as e:
        e.args = (loaded.hide(str(e)),)
        raise


@app.command()
def run(
    scenario: ScenarioArgument,
    overrides: SetOption = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs"),
    strict: StrictOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, also on a terminal.")] = False,
) -> None:
    """Run a scenario: start, load, inject, watch, undo, judge, report."""
    loaded, timeline, atoms = _load(scenario, overrides, strict)
    if dry_run:
        with _hiding(loaded):
            dry.show(out, loaded, timeline, load_probes())
        return
    command = [loaded.hide(word) for word in ["chaosflow", *sys.argv[1:]]]
    live = out.is_terminal and not plain
    view = LiveView(out, loaded.scenario.name, timeline.total_s) if live else PlainView(out)
    with _hiding(loaded), view:
        job = Run(loaded, timeline, atoms, load_probes(), Options(runs_dir, command), view)
        ended = asyncio.run(job.execute())
    _interruptible()  # the run had handlers of its own
    _show_end(ended)
    raise typer.Exit(int(ended.exit_code))


def _show_end(ended: Ended) -> None:
    out.print(verdict_table(ended.result))
    for note in ended.result.notes:
        err.print(Text.assemble(("note: ", "yellow"), note), soft_wrap=True)
    for command in ended.not_undone:
        err.print(Text.assemble(("NOT UNDONE, run by hand: ", "bold red"), command), soft_wrap=True)
    if ended.trouble:
        err.print(
            Text.assemble(("error: ", "bold red"), f"no report was written: {ended.trouble}"), soft_wrap=True
        )
    else:
        out.print(f"report: {ended.folder / ended.reports['report']}", soft_wrap=True, highlight=False)


@app.command()
def validate(scenario: ScenarioArgument, overrides: SetOption = None, strict: StrictOption = False) -> None:
    """Check a scenario; print every problem at once. Touches nothing."""
    loaded, timeline, _ = _load(scenario, overrides, strict)
    faults = len(loaded.scenario.faults)
    out.print(
        f"{loaded.path}: valid; {faults} fault(s), {timeline.total_s:g} s", soft_wrap=True, highlight=False
    )


@app.command()
def schema(
    result: Annotated[bool, typer.Option("--result", help="That of result.json instead.")] = False,
) -> None:
    """Print the JSON schema of scenarios, for editors."""
    found = result_schema() if result else json_schema(load_atoms())
    sys.stdout.write(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n")


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("scenario.yaml"),
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
    out.print(
        f"wrote {path}; next: chaosflow doctor {path}, then chaosflow run {path}",
        soft_wrap=True,
        highlight=False,
    )


@app.command("list")
def list_(what: Annotated[str, typer.Argument(help="faults, probes or scenarios.")]) -> None:
    """List what can be used: faults, probes or scenarios."""
    tables = {"faults": listing.faults, "probes": listing.probes, "scenarios": listing.scenarios}
    if what not in tables:
        raise UsageError(f"list {what}", "there is no such list", f"one of: {', '.join(tables)}")
    out.print(tables[what]())


@app.command()
def doctor(
    scenario: Annotated[str, typer.Argument(help="Only what this scenario needs.")] = "",
    overrides: SetOption = None,
) -> None:
    """Say which faults and probes can work on this machine, and why the others cannot. Reads only."""
    if scenario:
        loaded, _, _ = _load(scenario, overrides, strict=False)
        with _hiding(loaded):
            rows = planning.capability_table(loaded.scenario, loaded.atoms, load_probes())
            out.print(listing.capabilities(rows))
        if any(row.what != "probe" and not row.capability.ok for row in rows):
            raise typer.Exit(int(ExitCode.USAGE))
    else:
        out.print(listing.doctor())


@app.command()
def heal() -> None:
    """Undo whatever killed runs left behind on this machine. Leaves live runs alone."""
    healed = asyncio.run(heal_all(load_atoms()))
    for undo in healed.undone:
        out.print(f"undone: {undo.kind} {undo.name} (run {undo.run_id})", soft_wrap=True, highlight=False)
    for reason in healed.reasons:
        err.print(Text.assemble(("not undone: ", "bold red"), reason), soft_wrap=True)
    if not healed.runs and not healed.reasons:
        out.print("nothing to undo")
    if healed.failed or healed.reasons:
        raise typer.Exit(int(ExitCode.NOT_UNDONE))


@app.command()
def report(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, or its id below --runs-dir.")
    ],
    runs_dir: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs"),
) -> None:
    """Show a run's verdict again and write its reports anew from result.json."""
    folder = run_folder if run_folder.is_dir() else runs_dir / run_folder
    result = load_result(folder)
    names = write_all(result, folder)
    out.print(verdict_table(result))
    out.print(f"report: {folder / names['report']}", soft_wrap=True, highlight=False)
    raise typer.Exit(result.exit_code)


@app.command()
def records(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, or its id below --runs-dir.")
    ],
    where: Annotated[
        list[str] | None, typer.Option(help="Condition, e.g. 'ttft > 200ms'. Repeatable.")
    ] = None,
    sort: Annotated[str, typer.Option(help="Field to sort by; -FIELD for descending.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Rows to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="All fields, one JSON object a line.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs"),
) -> None:
    """Look into the raw records of a run: which requests were slow, which failed."""
    folder = run_folder if run_folder.is_dir() else runs_dir / run_folder
    rows = query.run_query(folder, where or [], sort=sort, limit=limit)
    if as_json:
        sys.stdout.write("".join(orjson.dumps(row).decode() + "\n" for row in rows))
    else:
        out.print(query.table(rows), markup=False, highlight=False)


_FORWARD = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _own_arguments(command: str) -> list[str]:
    """What stands behind a command whose program reads its own options, ``--`` included."""
    return sys.argv[sys.argv.index(command) + 1 :]


@app.command(context_settings=_FORWARD, add_help_option=False)
def serve() -> None:
    """Serve the included engine (OpenAI-compatible); --help shows its options."""
    from chaosflow.engine.__main__ import main as engine_main

    raise typer.Exit(engine_main(_own_arguments("serve")))


@app.command(context_settings=_FORWARD, add_help_option=False)
def proxy() -> None:
    """Run the fault proxy alone; --help shows its options."""
    from chaosflow.faults.proxy.__main__ import main as proxy_main

    raise typer.Exit(proxy_main(_own_arguments("proxy")))


@app.command(context_settings=_FORWARD, add_help_option=False)
def vgpu() -> None:
    """Run a Python tool on a virtual GPU: vgpu STATE -- COMMAND; --help shows its options."""
    from chaosflow.gpu.__main__ import main as vgpu_main

    raise typer.Exit(vgpu_main(_own_arguments("vgpu")))


@app.command(context_settings=_FORWARD, add_help_option=False)
def worker() -> None:
    """Join a run's load from another machine: worker --master HOST; --help shows its options."""
    # a process of its own from the first line on: gevent must come before everything else
    os.execv(sys.executable, [sys.executable, "-m", "chaosflow.load.remote", *_own_arguments("worker")])


def _version(value: bool) -> None:
    if value:
        out.print(f"chaosflow {chaosflow.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Entry point: every error becomes one message and its exit code."""
    _interruptible()
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


def _interruptible() -> None:
    """Ctrl-C outside of a run, where nothing is to be undone: leave at once, without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(int(ExitCode.INTERRUPTED)))


if __name__ == "__main__":
    main()
