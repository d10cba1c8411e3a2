"""The event stream parser: every case of the glossary's "stream parsing", and cuts at every position."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaosflow.load.sse import Event, SseParser


def parse(*chunks: bytes) -> list[Event]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def data(*chunks: bytes) -> list[bytes]:
    return [d for _, d in parse(*chunks)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b": ping\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n: ping\ndata: b\n\n", [b"a\nb"]),
        (b": ping\n\n: ping\n\n", []),
        (b"id: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data: x\ndata: y\n\n", [b"x\ny"]),
        (b"data\n\n", [b""]),
        (b"\n\n\n", []),
        (b"data: [DONE]\n\n", [b"[DONE]"]),
        (b"data:[DONE]\n\n", [b"[DONE]"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        ('data: {"c":"\u2028 \u0085 \u2029"}\n\n'.encode(), ['{"c":"\u2028 \u0085 \u2029"}'.encode()]),
        (b"nonsense\ndata: a\n\n", [b"a"]),
        (b"data: a\n", []),
    ],
)
def test_stream_parsing_table(stream: bytes, expected: list[bytes]) -> None:
    assert data(stream) == expected
    assert data(*(stream[i : i + 1] for i in range(len(stream)))) == expected


def test_event_types_do_not_leak_to_the_next_event() -> None:
    assert parse(b"event: error\ndata: x\n\ndata: y\n\n") == [(b"error", b"x"), (b"", b"y")]
    assert parse(b"event: error\n\ndata: y\n\n") == [(b"", b"y")]


def test_error_field_of_llama_cpp_is_an_error_event() -> None:
    assert parse(b'error: {"code":500}\n\n') == [(b"error", b'{"code":500}')]


RECORDED = (
    ": ping\r\n\r\n"
    'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\r\n\r\n'
    'data: {"choices":[{"delta":{"content":"Grüße 🌍 \u2028"}}]}\n\n'
    ': ping\ndata: {"choices":[{"delta":\ndata: {"content":"b"}}]}\n\n'
    'data:{"choices":null}\r\r'
    'event: message\nid: 1\ndata: {"choices":[],"usage":{"completion_tokens":2}}\n\n'
    "data: [DONE]\n\n"
).encode()


def test_a_stream_cut_at_any_position_gives_the_same_events() -> None:
    whole = parse(RECORDED)
    assert len(whole) == 6
    for cut in range(len(RECORDED) + 1):
        assert parse(RECORDED[:cut], RECORDED[cut:]) == whole, cut


@given(cuts=st.lists(st.integers(0, len(RECORDED)), max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_stream_cut_at_many_positions_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(RECORDED)]
    chunks = [RECORDED[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*chunks) == parse(RECORDED)


@given(stream=st.text("d:at \r\n\u2028é[", max_size=80), cut=st.integers(0, 240))
@settings(max_examples=300, deadline=None)
def test_any_text_cut_anywhere_gives_the_same_events(stream: str, cut: int) -> None:
    raw = stream.encode()
    assert parse(raw[:cut], raw[cut:]) == parse(raw)


def test_trailing_tells_whether_bytes_follow_the_last_event() -> None:
    parser = SseParser()
    parser.feed(b"data: a\n\n")
    assert not parser.trailing
    parser.feed(b"data: a\n\n: ping\n\n")
    assert parser.trailing
    parser.feed(b"data: a\n\ndata: b")
    assert parser.trailing


def test_flush_gives_an_event_without_its_blank_line() -> None:
    parser = SseParser()
    assert parser.feed(b"data: [DONE]") == []
    assert parser.flush() == (b"", b"[DONE]")
    assert parser.flush() is None


def test_an_endless_line_is_refused() -> None:
    parser = SseParser()
    parser.feed(b"x" * (8 << 20))
    with pytest.raises(ValueError, match="longer than"):
        parser.feed(b"x")
