"""Does the health check tell the truth?"""

from __future__ import annotations

from dataclasses import replace

from sla_build import evidence, traffic

from chaosflow.core.slo import ObjectiveVerdict, State
from chaosflow.sla.evidence import Evidence
from chaosflow.sla.judge import judge

TRUTH, UNREADY = "health_truth <= 3s during freeze", "time_to_unready <= 3s during freeze"


def frozen(silent: range, unready: range, text: str = TRUTH) -> Evidence:
    """A fault from 65 to 95 s; no token in ``silent``, not ready in ``unready``."""
    made = evidence([text], faults=["freeze"])
    for second in silent:
        traffic(made.store, [second], requests=0, tokens=0)
    readiness = [(s + 0.5, s not in unready) for s in range(125)]
    return replace(made, readiness=readiness, in_flight=dict.fromkeys(range(125), 12))


def verdict(made: Evidence) -> ObjectiveVerdict:
    return judge(made).objectives[0]


def test_a_check_that_follows_the_tokens_tells_the_truth() -> None:
    found = verdict(frozen(range(70, 80), range(71, 81)))
    assert found.state is State.PASS
    assert found.segments[0].observed == 1.0


def test_ready_while_no_token_moves_is_a_lie() -> None:
    found = verdict(frozen(range(70, 80), range(0)))
    assert found.state is State.FAIL
    assert "said ready while no token moved for 10 s (3 s allowed)" in found.sentence


def test_not_ready_while_tokens_move_is_a_lie_too() -> None:
    found = verdict(frozen(range(0), range(70, 76)))
    assert found.state is State.FAIL
    assert "said not ready while tokens moved for 6 s" in found.sentence


def test_nothing_under_way_is_no_stall() -> None:
    made = replace(frozen(range(70, 80), range(0)), in_flight=dict.fromkeys(range(125), 0))
    assert verdict(made).state is State.PASS


def test_an_unseen_check_is_inconclusive_never_pass() -> None:
    made = replace(frozen(range(70, 80), range(0)), readiness=())
    assert verdict(made).state is State.INCONCLUSIVE
    assert "was not seen" in verdict(made).sentence


def test_an_old_answer_says_nothing() -> None:
    made = frozen(range(70, 80), range(0))
    made = replace(made, readiness=[r for r in made.readiness if r[0] < 66])
    assert verdict(made).segments[0].n < 5


def test_time_to_unready_counts_from_the_last_token() -> None:
    found = verdict(frozen(range(70, 80), range(72, 80), UNREADY))
    assert found.state is State.PASS
    assert found.segments[0].observed == 2.0
    assert verdict(frozen(range(70, 80), range(75, 80), UNREADY)).state is State.FAIL


def test_never_unready_is_censored_and_fails() -> None:
    found = verdict(frozen(range(70, 80), range(0), UNREADY))
    assert found.state is State.FAIL
    assert found.segments[0].observed is None


def test_where_tokens_never_stopped_nothing_was_to_be_noticed() -> None:
    assert verdict(frozen(range(0), range(0), UNREADY)).state is State.INCONCLUSIVE
