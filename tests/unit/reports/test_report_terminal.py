"""The summary at the end of a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from sample_result import sample

from chaosflow.reports.terminal import verdict_table


def _text(result: object, width: int = 80, **options: bool) -> str:
    out = io.StringIO()
    Console(file=out, width=width, **options).print(verdict_table(result))  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("state", ["pass", "fail", "inconclusive", "invalid"])
def test_plain_text_at_80_columns(state: str) -> None:
    text = _text(sample(state))
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert state.upper() in text
    assert "…" not in text, "nothing is cut off"
    for expected in ("e2e.p99 <= 800ms", "gpu.clock", "Simulated:", "2.1 s", "confirmed, undone"):
        assert expected in text


def test_coloured_on_a_terminal() -> None:
    assert "\x1b[" in _text(sample(), force_terminal=True)


def test_markup_in_texts_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold] [/nope]" in _text(sample(reason="[bold]x[/bold] [/nope]"))


def test_fault_left_behind_names_the_command() -> None:
    result = sample("pass", exit_code=5)
    result.faults[2].reverted = False
    text = _text(result)
    assert "NOT undone" in text
    assert "kill -CONT -- 4211" in text
    assert "PASS" not in text


def test_a_recovery_that_was_not_measured_says_why() -> None:
    result = sample("pass")
    recovery = result.faults[0].recovery
    assert recovery is not None
    recovery.measured, recovery.sentence = False, "not measured: the baseline has 8 buckets"
    assert "recovery not measured: the baseline has 8 buckets" in " ".join(_text(result, width=200).split())
