"""Messages on a terminal break between words; in a pipe, and what is to be copied, they stay in one line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from chaosflow.cli.shared import wrapped

LONG = "scenario.yaml:11:56: jitter_ms 15 is more than delay_ms 10: bytes cannot arrive before they were sent"


def console(*, terminal: bool, width: int = 40) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width)


def test_words_stay_whole_and_nothing_is_lost() -> None:
    lines = ("error: " + wrapped(console(terminal=True), LONG, len("error: "))).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(lines) == "error: " + LONG


def test_a_pipe_gets_one_line() -> None:
    assert wrapped(console(terminal=False), LONG) == LONG


def test_lines_and_their_indentation_are_kept() -> None:
    assert (
        wrapped(console(terminal=True), "differ in\n  cpu: A, then B\n\nend")
        == "differ in\n  cpu: A, then B\n\nend"
    )
    assert wrapped(console(terminal=True), "", 7) == ""


@pytest.mark.parametrize("word", ["/a/path/" + "x" * 60, "http://proxy/" + "y-" * 40])
def test_a_word_longer_than_a_line_can_be_copied(word: str) -> None:
    assert word in wrapped(console(terminal=True), f"see {word} there").splitlines()
