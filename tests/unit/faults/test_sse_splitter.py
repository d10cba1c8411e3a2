"""Where an event ends, however its lines end and its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaosflow.faults.proxy.sse import EventSplitter, has_content, has_finish_reason, is_done, payload_of

ROLE = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}'
TOKEN = 'data:{"choices":[{"delta":{"content":"€ x\u2028\u0085"}}]}'
STREAM = [
    ": ping",
    ROLE,
    f"event: message\nid: 7\n{TOKEN}",
    ": between",
    TOKEN,
    "data: a\ndata: b",
    "data: [DONE]",
]


def _payloads(pieces: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    blocks = [block for piece in pieces for block in splitter.feed(piece)]
    assert b"".join(blocks) + splitter.rest() == b"".join(pieces)
    return [payload for block in blocks if (payload := payload_of(block))]


EXPECTED = [
    ROLE[6:].encode(), TOKEN[5:].encode(), TOKEN[5:].encode(), b"a\nb", b"[DONE]",
]  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_the_same_cut_at_every_position(end: str) -> None:
    data = "".join(f"{block}\n\n" for block in STREAM).replace("\n", end).encode()
    for cut in range(len(data) + 1):
        assert _payloads([data[:cut], data[cut:]]) == EXPECTED, cut
    assert _payloads([data[i : i + 1] for i in range(len(data))]) == EXPECTED


@pytest.mark.slow
@settings(database=None, derandomize=True)
@given(st.data())
def test_mixed_line_ends_and_any_cuts(draw: st.DataObject) -> None:
    lines = "".join(f"{block}\n\n" for block in STREAM).split("\n")[:-1]
    # no lone CR before a line that begins with LF: that would be one line end
    ends = draw.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    data = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode()
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=10))
    edges = [0, *sorted(cuts), len(data)]
    assert _payloads([data[a:b] for a, b in itertools.pairwise(edges)]) == EXPECTED


def test_a_block_without_an_end_is_given_back() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n\ndata: 2") == [b"data: 1\n\n"]
    assert splitter.waiting
    assert splitter.rest() == b"data: 2"
    assert not splitter.waiting


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


def test_ends_are_known() -> None:
    assert is_done(b" [DONE]")
    assert not is_done(b"{}")
    assert has_finish_reason(b'{"choices":[{"delta":{},"finish_reason":"stop"}]}')
    assert not has_finish_reason(b'{"choices":[{"delta":{},"finish_reason":null}]}')
    assert not has_finish_reason(b"[DONE]")
