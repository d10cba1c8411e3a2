"""The short way for token events never differs from the long one."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaosflow.load.parse import classify
from chaosflow.load.shape import TokenShape

EVENT = '{"id":"c1","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":null}'


def event(text: str) -> bytes:
    return (EVENT % orjson.dumps(text).decode()).encode()


def learned(data: bytes) -> TokenShape:
    shape = TokenShape()
    shape.learn(data, classify(b"", data))
    return shape


def test_the_shape_is_learned_from_one_token() -> None:
    shape = learned(event(" hello"))
    assert shape.text(event("world!")) == 6
    assert shape.text_in(event("world!")) == "world!"


@settings(max_examples=300)
@given(st.text(max_size=12))
def test_any_text_is_taken_as_the_json_parser_would(text: str) -> None:
    data = event(text)
    size = learned(event(" first")).text(data)
    piece = classify(b"", data)
    if size:
        assert (piece.token, piece.text, len(text)) == (True, text, size)
        assert piece.finish_reason == ""
        assert piece.usage_tokens is None


@pytest.mark.parametrize(
    "other",
    [
        event(""),
        event('a"b'),
        event("é"),
        EVENT.replace("null}]", '"length"}]').encode() % b'"x"',
        event("x")[:-1],
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
        b"[DONE]",
        event("x").replace(b"c1", b"c2"),
        EVENT.encode() % b'"x","content":""',
        EVENT.encode() % b'"a\x01b"',
    ],
)
def test_whatever_differs_goes_the_long_way(other: bytes) -> None:
    assert learned(event(" hello")).text(other) == 0


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{"token":"x"}]}}]}',
        b'{"choices":[{"delta":{"content":"x"}},{"delta":{"content":"y"}}]}',
        b'{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}',
        b'{"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":3}}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}',
        b'{"choices":[{"delta":{"content":"\xc3\xa9"}}]}',
    ],
)
def test_only_plain_tokens_are_learned_from(data: bytes) -> None:
    shape = learned(data)
    if shape.text(data):  # the first may be learned: its text is replaced in one place only
        assert classify(b"", data).text == shape.text_in(data)


def test_a_stream_whose_events_all_differ_is_not_learned_again_and_again() -> None:
    shape = TokenShape()
    for number in range(100):
        data = event("x").replace(b"c1", b"id%d" % number)
        assert shape.text(data) == 0
        shape.learn(data, classify(b"", data))
    assert shape.text(data) == 0


def test_completions_and_reasoning_have_shapes_too() -> None:
    for data in (
        b'{"choices":[{"index":0,"text":" a","finish_reason":null}]}',
        b'{"choices":[{"delta":{"reasoning_content":" a"}}]}',
    ):
        assert learned(data).text(data.replace(b" a", b" bcd")) == 4
