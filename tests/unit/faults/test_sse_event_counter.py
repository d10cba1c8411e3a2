"""Finding the token boundary in raw bytes, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaosflow.faults.proxy.toxics.sse_stall import EventCounter, has_content

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
TOKEN = b'data: {"choices":[{"delta":{"content":"\xe2\x82\xac x"}}]}\n\n'
PING = b": ping\n\n"
STREAM = HEAD + PING + ROLE + TOKEN + PING + TOKEN + TOKEN + b"data: [DONE]\n\n"
BOUNDARY = len(HEAD + PING + ROLE + TOKEN + PING + TOKEN)


def _cut_offset(pieces: list[bytes], after: int) -> int | None:
    counter = EventCounter()

    def new_response() -> None:
        counter.stop_after = after

    passed = 0
    for piece in pieces:
        end = counter.cut(piece, new_response)
        if end is not None:
            return passed + end
        passed += len(piece)
    return None


@settings(database=None, derandomize=True)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_boundary_is_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert _cut_offset(pieces, 2) == BOUNDARY


def test_crlf_line_ends_count_alike() -> None:
    stream = STREAM.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    offset = _cut_offset([stream], 2)
    assert offset is not None
    assert stream[:offset].count(b"\xe2\x82\xac") == 2
    assert stream[:offset].endswith(b"\r\n\r\n")


def test_too_few_events_cut_nothing() -> None:
    assert _cut_offset([STREAM], 4) is None


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (b' {"choices":[{"delta":{"content":"a"}}]}', True),
        (b'{"choices":[{"text":"a"}]}', True),
        (b'{"choices":[{"delta":{"reasoning_content":"a"}}]}', True),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}', True),
        (b'{"choices":[{"delta":{"content":null}}]}', False),
        (b'{"choices":[{"delta":{"role":"assistant","content":""}}]}', False),
        (b'{"choices":[],"usage":{"completion_tokens":3}}', False),
        (b'{"choices":null}', False),
        (b"[DONE]", False),
        (b'{"choices":[{"delta":{"content":"cut in tw', True),
        (b'{"choices":[{"delta":{"content":""', False),
    ],
)
def test_what_counts_as_a_token(payload: bytes, answer: bool) -> None:
    assert has_content(payload) is answer
