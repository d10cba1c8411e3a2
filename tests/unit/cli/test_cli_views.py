"""The live screen at the widths people have: nothing wraps, nothing is cut that carries the meaning."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from chaosflow.core.slo import State
from chaosflow.orchestrator.progress import ActiveFault, Frame, ObjectiveNow
from chaosflow.views import LiveView, PlainView, sparkline

FRAME = Frame(
    phase="fault gpu-clock",
    at_s=31.0,
    phase_left_s=8.0,
    run_left_s=75.0,
    faults=(
        ActiveFault("gpu-clock", "gpu.clock", "virtual GPU 0 reads 300 MHz at 93 % load, 300 wanted", 8.0),
    ),
    quantiles={"ttft": (11.2, 1182.0, 2100.5), "gap": (5.6, 48.4, 83.9), "e2e": (174.0, 1032.0, None)},
    tokens_per_s=1228.0,
    requests_per_s=27.0,
    errors_per_s=0.0,
    in_flight=28,
    objectives=(ObjectiveNow("ttft.p95 <= 4s", State.PASS, "gpu-clock: 0 % of 243, 5 % allowed"),),
    history=tuple(float(i % 7) for i in range(60)),
)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_every_figure_keeps_its_name_and_unit(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=30, force_terminal=True, color_system=None)
    view = LiveView(console, "quickstart", 90.5)
    view.frame(FRAME)
    view.event(1.0, "inject_ack", "gpu-clock")
    with console.capture() as capture:
        console.print(view._render())
    lines = capture.get().splitlines()
    text = "\n".join(lines)
    for word in (
        "TTFT",
        "11.2 ms",
        "1,182 ms",
        "gap",
        "E2E",
        "1,228",
        "tok",
        "in flight",
        "gpu-clock",
        "ttft.p95",
    ):
        assert word in text, (word, text)
    assert all(len(line) <= width for line in lines)
    assert ("last minute" in text) is (width >= 110)
    assert text.count("TTFT") == 1
    heading = next(line for line in lines if "last 10 s" in line)
    assert "━" not in heading, "the bar has a line of its own"
    assert not any(line.strip("│ ").startswith("ms") for line in lines), "a unit on a line of its own"


def test_a_low_terminal_gives_up_old_events_first() -> None:
    console = Console(file=io.StringIO(), width=100, height=14, force_terminal=True, color_system=None)
    view = LiveView(console, "x", 90.5)
    view.frame(FRAME)
    for i in range(5):
        view.event(float(i), "note", f"event {i}")
    with console.capture() as capture:
        console.print(view._render())
    lines = capture.get().splitlines()
    assert len(lines) <= 14
    assert "event 4" in "\n".join(lines)


def test_plain_lines_say_the_same_without_a_terminal() -> None:
    out = io.StringIO()
    view = PlainView(Console(file=out, width=80))
    view.event(3.0, "revert_ack", "jitter")
    view.frame(FRAME)
    view.frame(FRAME)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2, "one frame in ten seconds"
    assert "reverted and verified: jitter" in lines[0]
    assert "ttft p95 1,182 ms" in lines[1]


def test_a_sparkline_starts_at_zero() -> None:
    assert sparkline([0, 5, 10]) == "▁▄█"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
