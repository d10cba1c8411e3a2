"""Where a line of values breaks, and that what is not known is said to be not known."""

from __future__ import annotations

from itertools import product

import pytest

from chaosflow.core.sweepresult import AxisResult, Breaking, PointResult, find_breaking, strain

STATES = {"p": "pass", "f": "fail", "i": "inconclusive", "v": "invalid", "e": "error"}


def axis(path: str, values: list[str], numbers: bool = True) -> AxisResult:
    return AxisResult(
        path=path, short=path, values=values, numbers=[float(v) for v in values] if numbers else None
    )


def line(letters: str) -> Breaking:
    """One line of 10, 20, 30 …: a letter for each value's state, ``-`` where it was not run."""
    values = [str(10 * (i + 1)) for i in range(len(letters))]
    points = [
        PointResult(values={"x": v}, state=STATES[letter], exit_code=0, reason="", runs=["r"])
        for v, letter in zip(values, letters, strict=True)
        if letter != "-"
    ]
    found = find_breaking([axis("x", values)], points)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("letters", "verdict", "holds", "breaks"),
    [
        ("ppff", "found", "20", "30"),
        ("pppp", "all_pass", "40", None),
        ("ffff", "none_passes", None, "10"),
        ("f---", "none_passes", None, "10"),
        ("p-pf", "found", "30", "40"),
        ("p--p", "all_pass", "40", None),
        ("piff", "found", "10", "30"),
        ("ipff", "found", "20", "30"),
        ("ppii", "undecided", "20", None),
        ("ppvv", "undecided", "20", None),
        ("iiff", "undecided", None, "30"),
        ("iiii", "undecided", None, None),
        ("----", "not_run", None, None),
        ("pfpf", "out_of_order", "10", "20"),
        ("fppp", "out_of_order", None, "10"),
        ("pp--", "undecided", "20", None),
    ],
)
def test_a_line_of_states(letters: str, verdict: str, holds: str | None, breaks: str | None) -> None:
    found = line(letters)
    assert (found.verdict, found.holds_up_to, found.breaks_at) == (verdict, holds, breaks)
    assert found.sentence


def test_a_pass_beyond_a_fail_is_shown_and_not_smoothed_away() -> None:
    found = line("pfpf")
    assert found.out_of_order == ["30"]
    assert "no clear breaking point" in found.sentence
    assert "yet passes at 30" in found.sentence


def test_undecided_values_are_named_with_their_state() -> None:
    found = line("piff")
    assert found.undecided == ["20"]
    assert "undecided, so counted as not passing: 20 (inconclusive)" in found.sentence
    assert "30 (invalid)" in line("ppvv").sentence


def test_only_an_explicit_pass_ever_holds() -> None:
    """Whatever the states: what is said to hold passed, and nothing at or before it failed."""
    for letters in map("".join, product("pfi-", repeat=5)):
        found = line(letters)
        if found.holds_up_to is not None:
            index = int(found.holds_up_to) // 10 - 1
            assert letters[index] == "p"
            assert "f" not in letters[: index + 1]
        if found.verdict == "found":
            assert found.breaks_at is not None
            assert "p" not in letters[int(found.breaks_at) // 10 - 1 :]


def test_every_combination_of_the_other_axes_has_its_own_line() -> None:
    axes = [axis("kind", ["a", "b"], numbers=False), axis("x", ["1", "2"])]
    points = [
        PointResult(values={"kind": k, "x": x}, state=s, exit_code=0, reason="", runs=["r"])
        for k, x, s in [("a", "1", "pass"), ("a", "2", "fail"), ("b", "1", "pass"), ("b", "2", "pass")]
    ]
    found = {b.fixed["kind"]: b.verdict for b in find_breaking(axes, points)}
    assert found == {"a": "found", "b": "all_pass"}


def test_strain_turns_round_for_metrics_where_more_is_better() -> None:
    assert strain("ttft", 0.3, 0.2) == pytest.approx(1.5)
    assert strain("goodput", 0.5, 1.0) == pytest.approx(2.0)
    assert strain("ttft", None, 0.2) == 0.0
