"""The files that a load names, looked at before anything is touched: there, readable, and what they should be."""

from __future__ import annotations

from collections.abc import Callable

from chaosflow.core.arrival import TraceArrival
from chaosflow.core.checks import Issue
from chaosflow.core.errors import UsageError
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.tracefile import read_text, read_trace
from chaosflow.core.yamltree import Path
from chaosflow.load.content import Writer, parse_prompts


def load_file_issues(load: LoadPlan) -> list[Issue]:
    """What is wrong with each file. Reads them whole; does not run a locustfile, only compiles it."""
    named: list[tuple[Path, str | None, Callable[[str], object]]] = [
        (("load", "prompts_file"), load.prompts_file, lambda path: parse_prompts(read_text(path), path)),
        (("load", "tokenizer"), load.tokenizer, lambda path: Writer(read_text(path), path)),
        (("load", "locustfile"), load.locustfile, _compiled),
    ]
    if isinstance(load.arrival, TraceArrival):
        repeat = load.arrival.repeat
        named.insert(
            0, (("load", "arrival", "file"), load.arrival.file, lambda path: _replayable(path, repeat))
        )
    issues = []
    for place, path, read in named:
        if path is None:
            continue
        try:
            read(path)
        except UsageError as e:
            issues.append(Issue(place, f"{e.thing}: {e.cause}", e.remedy))
    return issues


def _replayable(path: str, repeat: bool) -> None:
    if read_trace(path)[-1].at_s == 0 and repeat:
        raise UsageError(path, "all its requests come at one moment: it cannot repeat", "remove 'repeat'")


def _compiled(path: str) -> object:
    try:
        return compile(read_text(path), path, "exec")
    except (SyntaxError, ValueError) as e:
        raise UsageError(path, f"{type(e).__name__}: {e}", "try it with locust -f first") from e
