"""What a person sees while a run goes on: a live screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from chaosflow.core.slo import State
from chaosflow.core.units import format_duration, printable
from chaosflow.orchestrator.progress import Frame

STATE_STYLE = {
    State.PASS: ("✓", "green"),
    State.INCONCLUSIVE: ("?", "yellow"),
    State.FAIL: ("✗", "bold red"),
    State.INVALID: ("!", "bold magenta"),
    State.ERROR: ("!", "bold red"),
}
_BARS = "▁▂▃▄▅▆▇█"
_QUIET = {"inject_begin", "revert_begin"}
_SHOWN_EVENTS = 5


class PatientConsole(Console):
    """Goes on in silence when its reader goes away or its disk is full: rich would end the process instead.

    Control characters in what it prints become signs that move no cursor.
    """

    def on_broken_pipe(self) -> None:
        self._go_silent()

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError:
            self._go_silent()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Without the control characters that a server may have put into its name or its answers."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def _go_silent(self) -> None:
        self.file = open(os.devnull, "w")  # noqa: SIM115  (until the process ends)
        with contextlib.suppress(OSError, ValueError):  # what Python itself still has to flush goes there too
            os.dup2(self.file.fileno(), 2 if self.stderr else 1)


class PlainView:
    """One line per event, and one every 10 s: for logs and CI."""

    EVERY_S = 10.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_s = float("-inf")

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def event(self, at_s: float, what: str, text: str) -> None:
        if what not in _QUIET:
            self._line(at_s, f"{_words(what)} {text}".strip())

    def frame(self, frame: Frame) -> None:
        if frame.at_s - self._last_s < self.EVERY_S:
            return
        self._last_s = frame.at_s
        p95 = {metric: values[1] for metric, values in frame.quantiles.items()}
        parts = [
            frame.phase,
            *(f"{m} p95 {_ms(v)}" for m, v in p95.items()),
            f"{frame.tokens_per_s:.0f} tok/s",
        ]
        if frame.errors_per_s:
            parts.append(f"{frame.errors_per_s:.1f} errors/s")
        self._line(frame.at_s, " · ".join(parts))

    def _line(self, at_s: float, text: str) -> None:
        self._console.print(f"{at_s:8.1f} s  {text}", markup=False, highlight=False, soft_wrap=True)


WIDE, ROOMY = 110, 84
"""Columns from which the rates, and the sparkline, stand beside the percentiles."""


class LiveView:
    """The screen of a run, redrawn in place; it fits the terminal it is in."""

    def __init__(self, console: Console, title: str, total_s: float) -> None:
        self._console, self._title, self._total_s = console, title, total_s
        self._events: list[tuple[float, str, str]] = []
        self._frame: Frame | None = None
        self._live = Live(
            console=console,
            refresh_per_second=4,
            transient=True,
            vertical_overflow="crop",
            get_renderable=self._render,
        )

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)

    def event(self, at_s: float, what: str, text: str) -> None:
        if what not in _QUIET:
            self._events = [*self._events, (at_s, what, text)][-_SHOWN_EVENTS:]

    def frame(self, frame: Frame) -> None:
        self._frame = frame

    def _render(self) -> RenderableType:
        frame, width = self._frame, self._console.width
        body: list[RenderableType] = []
        used = 3  # the panel's frame and a line to spare
        if frame is None:
            body.append(Text("starting the target, the proxy and the load …", style="dim"))
            used += 1
        else:
            figures, lines = _figures(frame, width)
            body += [_phase_line(frame), _bar(frame, self._total_s), figures]
            body += [*_fault_lines(frame), *_objective_lines(frame)]
            used += 2 + lines + len(frame.faults) + len(frame.objectives)
        room = max(0, min(_SHOWN_EVENTS, self._console.height - used))
        body += [_event_line(*event) for event in self._events[-room:]] if room else []
        return Panel(Group(*body), title=f"chaosflow · {self._title}", title_align="left", padding=(0, 1))


def _phase_line(frame: Frame) -> RenderableType:
    left = f"{format_duration(round(frame.phase_left_s))} left" if frame.phase_left_s is not None else ""
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(
        Text.assemble((frame.phase, "bold"), ("  " + left, "dim")),
        Text(f"ends in {format_duration(round(frame.run_left_s))}", style="dim"),
    )
    return grid


def _bar(frame: Frame, total_s: float) -> RenderableType:
    done_s = max(0.0, total_s - frame.run_left_s)
    line = Table.grid(expand=True)  # a bare bar does not end its line
    line.add_row(ProgressBar(total=total_s, completed=done_s, complete_style="cyan", finished_style="cyan"))
    return line


def _figures(frame: Frame, width: int) -> tuple[RenderableType, int]:
    """The percentiles, and beside or below them the rates; and how many lines that takes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True, min_width=9)
    table.add_row(Text("last 10 s", style="dim"), *(Text(q, style="dim") for q in ("p50", "p95", "p99")))
    for metric, values in frame.quantiles.items():
        table.add_row(metric.upper() if metric != "gap" else "gap", *(_ms(v) for v in values))
    lines = 1 + len(frame.quantiles)
    if width < ROOMY:
        rates = Text.assemble(
            f"{frame.tokens_per_s:,.0f} ", ("tok/s  ", "dim"), f"{frame.requests_per_s:.1f} ", ("req/s  ", "dim"),
            f"{frame.errors_per_s:.1f} ", ("err/s  ", "bold red" if frame.errors_per_s else "dim"),
            f"{frame.in_flight} ", ("in flight", "dim"),
        )  # fmt: skip
        rates.no_wrap = True
        return Group(table, rates), lines + 1
    grid = Table.grid(padding=(0, 4))
    columns: list[RenderableType] = [table, _rates(frame)]
    if width >= WIDE:
        bars = Text(sparkline(frame.history[-(width - 76) :]), style="cyan", no_wrap=True)
        columns.append(Group(Text("tokens/s, last minute", style="dim", no_wrap=True), bars))
    grid.add_row(*columns)
    return grid, lines


def _rates(frame: Frame) -> Table:
    rates = Table.grid(padding=(0, 1))
    rates.add_column(justify="right", no_wrap=True, min_width=6)
    rates.add_column(no_wrap=True)
    rates.add_row(f"{frame.tokens_per_s:,.0f}", Text("tokens/s", style="dim"))
    rates.add_row(f"{frame.requests_per_s:.1f}", Text("requests/s", style="dim"))
    style = "bold red" if frame.errors_per_s else ""
    rates.add_row(Text(f"{frame.errors_per_s:.1f}", style=style), Text("errors/s", style="dim"))
    rates.add_row(f"{frame.in_flight}", Text("in flight", style="dim"))
    return rates


def _fault_lines(frame: Frame) -> Iterable[Text]:
    for fault in frame.faults:
        left = f"  {fault.left_s:.0f} s left" if fault.left_s is not None else ""
        yield _one_line(
            ("● ", "red"),
            (fault.name, "bold red"),
            (f"  {fault.kind}", "dim"),
            left,
            (f"  {fault.text}", "dim"),
        )


def _objective_lines(frame: Frame) -> Iterable[Text]:
    for objective in frame.objectives:
        sign, style = STATE_STYLE[objective.state] if objective.state is not None else ("·", "dim")
        yield _one_line((f"{sign} ", style), objective.text, (f"  {objective.note}", "dim"))


def _one_line(*parts: str | tuple[str, str]) -> Text:
    text = Text.assemble(*parts)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _event_line(at_s: float, what: str, text: str) -> Text:
    return Text(f"{at_s:7.1f} s  {_words(what)} {text}", style="dim", overflow="ellipsis", no_wrap=True)


def _words(what: str) -> str:
    return {
        "inject_ack": "injected and verified:",
        "revert_ack": "reverted and verified:",
        "recovery_end": "recovery watched:",
        "start": "",
    }.get(what, f"{what}:")


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def sparkline(values: Iterable[float]) -> str:
    """Bars from 0 to the largest value."""
    numbers = list(values)
    top = max(numbers, default=0.0)
    if top <= 0:
        return _BARS[0] * len(numbers)
    return "".join(_BARS[min(7, int(v / top * 7.999))] for v in numbers)
