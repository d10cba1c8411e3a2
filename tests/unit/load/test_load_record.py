"""Whether all the tokens of a stream came: usage against what was counted."""

from __future__ import annotations

import pytest

from chaosflow.core.sample import Outcome, RequestRecord


def record(
    events: int,
    usage: int | None = None,
    text_bytes: int | None = None,
    counted: int | None = None,
    asked: int = 0,
    done: bool = True,
) -> RequestRecord:
    made = RequestRecord(0, 0, asked_tokens=asked, counted_tokens=counted, saw_done=done)
    made.event_ns.extend(range(events))
    made.tokens, made.tokens_by_usage = (events, False) if usage is None else (usage, True)
    made.text_bytes = 4 * made.tokens if text_bytes is None else text_bytes
    return made


@pytest.mark.parametrize(
    "whole",
    [
        record(64, 64),
        record(40, 64),  # several tokens in an event, as vLLM does when it lags
        record(64),
        record(10, asked=64),  # no usage: events may hold several tokens
        record(63, 64, text_bytes=70),
        record(64, 64, counted=60),
        record(64, 64, asked=64),
    ],
)
def test_whole_streams(whole: RequestRecord) -> None:
    assert (whole.missing, whole.complete) == ("", True)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (record(10, 1024, text_bytes=40), "only 40 bytes"),  # inference-perf 655, with a [DONE]
        (record(65, 64), "65 events"),  # an event came twice
        (record(64, 64, counted=30), "has 30"),
        (record(10, 10, asked=64), "64 tokens were to come"),
        (record(10, counted=10, asked=64), "the text has 10"),
    ],
)
def test_usage_that_contradicts_what_came_is_incomplete(broken: RequestRecord, said: str) -> None:
    assert said in broken.missing
    assert not broken.complete


def test_a_failure_or_an_end_without_a_signal_is_not_complete() -> None:
    assert not record(4, done=False).complete
    failed = record(4)
    failed.outcome = Outcome.RESET
    assert not failed.complete
