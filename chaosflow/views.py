"""What a person sees while a run goes on: a live screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from chaosflow.core.slo import State
from chaosflow.core.units import format_duration
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
    """Goes on in silence when its reader goes away or its disk is full: rich would end the process instead."""

    def on_broken_pipe(self) -> None:
        self._go_silent()

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError:
            self._go_silent()

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


class LiveView:
    """The screen of a run, redrawn in place."""

    def __init__(self, console: Console, title: str, total_s: float, simulated: str = "") -> None:
        self._title, self._total_s, self._simulated = title, total_s, simulated
        self._events: list[tuple[float, str, str]] = []
        self._frame: Frame | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._render)

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
        frame = self._frame
        body: list[RenderableType] = []
        if frame is None:
            body.append(Text("starting the target, the proxy and the load …", style="dim"))
        else:
            body += [_phase_line(frame), _bar(frame, self._total_s), Text(), _figures(frame)]
            if frame.faults:
                body += [Text(), *_fault_lines(frame)]
            body += [Text(), *_objective_lines(frame)]
        if self._events:
            body += [Text(), *(_event_line(*event) for event in self._events)]
        subtitle = f"simulated: {self._simulated}" if self._simulated else None
        return Panel(
            Group(*body),
            title=f"chaosflow · {self._title}",
            subtitle=subtitle,
            title_align="left",
            subtitle_align="left",
            padding=(0, 1),
        )


def _phase_line(frame: Frame) -> RenderableType:
    left = f"{format_duration(round(frame.phase_left_s))} left" if frame.phase_left_s is not None else ""
    grid = Table.grid(expand=True)
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_row(
        Text.assemble((frame.phase, "bold"), ("  " + left, "dim")),
        Text(f"run ends in {format_duration(round(frame.run_left_s))}", style="dim"),
    )
    return grid


def _bar(frame: Frame, total_s: float) -> RenderableType:
    return ProgressBar(
        total=total_s,
        completed=max(0.0, total_s - frame.run_left_s),
        complete_style="cyan",
        finished_style="cyan",
    )


def _figures(frame: Frame) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    for justify in ("left", "right", "right", "right"):
        table.add_column(justify=justify)
    table.add_row(Text("last 10 s", style="dim"), *(Text(q, style="dim") for q in ("p50", "p95", "p99")))
    for metric, values in frame.quantiles.items():
        table.add_row(metric.upper() if metric != "gap" else "gap", *(_ms(v) for v in values))
    rates = Table.grid(padding=(0, 2))
    rates.add_column(justify="right")
    rates.add_column()
    rates.add_row(f"{frame.tokens_per_s:,.0f}", Text("tokens/s", style="dim"))
    rates.add_row(f"{frame.requests_per_s:.1f}", Text("requests/s", style="dim"))
    rates.add_row(
        Text(f"{frame.errors_per_s:.1f}", style="bold red" if frame.errors_per_s else ""),
        Text("errors/s", style="dim"),
    )
    rates.add_row(f"{frame.in_flight}", Text("in flight", style="dim"))
    spark = Group(
        Text("tokens/s, last minute", style="dim"), Text(sparkline(frame.history[-40:]), style="cyan")
    )
    grid = Table.grid(padding=(0, 6))
    grid.add_row(table, rates, spark)
    return grid


def _fault_lines(frame: Frame) -> Iterable[Text]:
    for fault in frame.faults:
        left = f"  {fault.left_s:.0f} s left" if fault.left_s is not None else ""
        yield Text.assemble(
            ("● ", "red"),
            (fault.name, "bold red"),
            (f"  {fault.kind}", "dim"),
            left,
            (f"  {fault.text}", "dim"),
        )


def _objective_lines(frame: Frame) -> Iterable[Text]:
    for objective in frame.objectives:
        sign, style = STATE_STYLE[objective.state] if objective.state is not None else ("·", "dim")
        yield Text.assemble((f"{sign} ", style), objective.text, (f"  {objective.note}", "dim"))


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
