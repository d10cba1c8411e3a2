"""Commands that look at many runs: the history, two runs compared, the nightly."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from chaosflow.cli.interrupt import leave_at_once
from chaosflow.cli.metering import (
    LOOPBACK,
    MetricsAddressOption,
    MetricsLingerOption,
    MetricsPortOption,
    metering,
)
from chaosflow.cli.runs import run_folder
from chaosflow.cli.shared import A_RUN, HistoryOption, RunsDirOption, out, say, view_of, warn, wrapped
from chaosflow.core.errors import ChaosflowError, ExitCode, UsageError
from chaosflow.core.result import RunResult
from chaosflow.core.units import parse_duration_s
from chaosflow.orchestrator.nightly import Nightly
from chaosflow.orchestrator.rundir import hand_over
from chaosflow.orchestrator.suite import load_suite
from chaosflow.reports.history import tables
from chaosflow.reports.history.compare import compare as compare_runs
from chaosflow.reports.history.compare import overall, usual_differences
from chaosflow.reports.history.entry import Entry, differences, entry_of
from chaosflow.reports.history.nightly_text import write_nightly
from chaosflow.reports.history.report import NightlyReport
from chaosflow.reports.history.samples import load_samples
from chaosflow.reports.history.store import HISTORY_FILE, History
from chaosflow.reports.writer import load_result

_COMPARE_CODES = {
    "worse": ExitCode.FAIL,
    "undecided": ExitCode.INCONCLUSIVE,
    "few": ExitCode.INCONCLUSIVE,
    "none": ExitCode.PASS,
}


def history(
    name: Annotated[str | None, typer.Option(help="Only this scenario's runs.")] = None,
    last: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a run, all metrics.")] = False,
    prune: Annotated[
        str | None, typer.Option(metavar="AGE", help="Forget runs older than AGE, e.g. 180d. Folders stay.")
    ] = None,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
) -> None:
    """Show the runs of the past: when, verdict, key metrics."""
    with History.read(history or runs_dir / HISTORY_FILE) as opened:
        if prune is not None:
            say(tables.pruned_words(*_prune(opened, prune)))
            return
        entries = opened.entries(name, last)
    if as_json:
        sys.stdout.write("".join(orjson.dumps(_plain(e)).decode() + "\n" for e in entries))
    elif not entries:
        say("no runs yet" if name is None else f"no runs of {name!r} yet")
    else:
        out.print(tables.history_table(entries))


def _prune(opened: History, age: str) -> tuple[int, float]:
    try:
        age_s = parse_duration_s(age)
    except ValueError as e:
        raise UsageError(f"--prune {age}", "is not an age", "write for example --prune 180d") from e
    before = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - age_s))
    return opened.prune(before), age_s


def _plain(entry: Entry) -> dict[str, Any]:
    data = asdict(entry)
    data["series"] = entry.series
    data["values"] = [
        {"segment": segment, "metric": metric, "value": v.value, "n": v.n}
        for (segment, metric), v in entry.values.items()
    ]
    return data


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=f"The run to compare with. {A_RUN}")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The run that is judged.")],
    min_effect: Annotated[str, typer.Option(help="The least change worth a word.")] = "10%",
    force: Annotated[bool, typer.Option("--force", help="Also where machine or scenario differ.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show the tests without a finding too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a test.")] = False,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
) -> None:
    """Is run B worse than run A? Ends with 1 if it is, 0 if nothing says so, 3 where undecided."""
    effect = _share(min_effect)
    folders = [run_folder(run, runs_dir, history) for run in (first, second)]
    if folders[0].resolve() == folders[1].resolve():
        raise UsageError(
            f"{first} and {second}", "are the same run", "name two runs; chaosflow history lists them"
        )
    results = [load_result(folder) for folder in folders]
    _require_comparable(*results, force=force)
    segments = [s.name for s in results[0].segments if s.kind not in ("warmup", "edge")]
    samples = [load_samples(folder) for folder in folders]
    usual = _usual(results, history or runs_dir / HISTORY_FILE)
    found = compare_runs(samples[0], samples[1], segments, effect, usual)
    verdict = overall(found)
    if as_json:
        lines = (orjson.dumps(asdict(c) | {"sentence": c.sentence}).decode() for c in found)
        sys.stdout.write("".join(line + "\n" for line in lines))
    else:
        out.print(tables.compare_table(found, everything))
        say(wrapped(out, _verdict_words(verdict, results)))
    raise typer.Exit(int(_COMPARE_CODES[verdict]))


def _usual(results: list[RunResult], path: Path) -> dict[tuple[str, str], float]:
    """What runs of the first one's series differ by, as far as the history knows."""
    if not path.is_file():
        return {}
    wanted = entry_of(results[0])
    with History.read(path) as opened:
        others = [e for e in opened.entries(wanted.name) if e.counts and e.series == wanted.series]
    return usual_differences([e for e in others if e.run_id not in [r.run_id for r in results]])


def _verdict_words(verdict: str, results: list[RunResult]) -> str:
    a, b = (r.run_id for r in results)
    text = {
        "worse": f"{b} is worse than {a}",
        "undecided": f"undecided: {b} looks worse than {a}, but by too few samples to tell",
        "few": f"undecided: {a} and {b} are too short to be compared",
        "none": f"nothing says that {b} is worse than {a}",
    }[verdict]
    return f"{text} (one run each; a nightly tells a change from a bad moment)"


def _require_comparable(a: RunResult, b: RunResult, *, force: bool) -> None:
    differ = differences(entry_of(a), entry_of(b))
    if differ and not force:
        raise UsageError(
            f"{a.run_id} and {b.run_id}",
            "not comparable (--force compares them anyway); first and second differ in\n  "
            + "\n  ".join(differ),
        )
    for text in differ:
        warn("differs", text)


def _share(text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 10:
        raise UsageError(f"--min-effect {text}", "is not a share above 0", "write for example 10%")
    return value


def nightly(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="The suite: a YAML list of scenarios with overrides.")
    ],
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Run nothing: judge the newest night of the history.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, also on a terminal.")] = False,
    runs_dir: RunsDirOption = Path("runs"),
    history: HistoryOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_address: MetricsAddressOption = LOOPBACK,
    metrics_linger: MetricsLingerOption = "0s",
) -> None:
    """Run a suite, repeat what looks changed, compare with the nights before; not 0 on a regression."""
    loaded = load_suite(suite)
    for prepared in loaded.prepared:
        for warning in prepared.warnings:
            warn("warning", f"{prepared.loaded.scenario.name}: {warning}")
    with metering(metrics_port, metrics_address, metrics_linger) as metrics:
        command = ["chaosflow", *sys.argv[1:]]
        view = partial(view_of, plain=plain)
        night = Nightly(loaded, runs_dir, view, say, history, command, metrics=metrics.live)
        report = night.judge_only() if no_run else night.run()
        leave_at_once()
        folder = runs_dir / report.session
        out.print(tables.nightly_table(report))
        code = _written(report, folder)
        metrics.linger()
    raise typer.Exit(int(code))


def _written(report: NightlyReport, folder: Path) -> ExitCode:
    """Write what a nightly leaves; its exit code, which a report that cannot be written turns into an error.

    Not where a fault is still in place: that beats all.
    """
    code = ExitCode(report.exit_code)
    try:
        say(f"report: {write_nightly(report, folder)['page']}")
    except ChaosflowError as e:
        warn("error", str(e), "bold red")
        code = code if code is ExitCode.NOT_UNDONE else ExitCode.ERROR
    if folder.exists():
        hand_over(folder)
    return code
