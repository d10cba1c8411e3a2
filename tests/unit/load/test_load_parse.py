"""What counts as a token, an end, an error (CASES: vllm 27485, 15106; sglang 37986, 5451, 23949)."""

from __future__ import annotations

import json

import pytest

from chaosflow.load.parse import classify


def of(chunk: object, event_type: bytes = b"") -> object:
    return classify(event_type, json.dumps(chunk).encode())


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("chunk", "token"),
    [
        (delta(role="assistant", content=""), False),
        (delta(role="assistant", content=None), False),
        (delta(), False),
        (delta(content="a"), True),
        (delta(content=" "), True),
        (delta(reasoning="a"), True),
        (delta(reasoning_content="a"), True),
        (delta(reasoning_content=None, content=""), False),
        (delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}]), True),
        (delta(tool_calls=[]), False),
        ({"choices": [{"text": "a"}]}, True),
        ({"choices": [{"text": ""}]}, False),
        ({"choices": []}, False),
        ({"choices": None}, False),
        ({"choices": [{"delta": None}]}, False),
        ({"choices": [None]}, False),
        ({}, False),
    ],
)
def test_role_only_and_empty_chunks_are_no_tokens(chunk: object, token: bool) -> None:
    piece = of(chunk)
    assert piece.token is token  # type: ignore[attr-defined]
    assert not piece.done  # type: ignore[attr-defined]
    assert not piece.error  # type: ignore[attr-defined]


def test_usage_on_its_own_and_on_the_finish_chunk() -> None:
    alone = classify(b"", b'{"choices":[],"usage":{"completion_tokens":7}}')
    assert (alone.token, alone.usage_tokens) == (False, 7)
    finish = classify(
        b"", b'{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"completion_tokens":9}}'
    )
    assert (finish.token, finish.finish_reason, finish.usage_tokens) == (True, "stop", 9)
    assert classify(b"", b'{"choices":[],"usage":null}').usage_tokens is None


@pytest.mark.parametrize(
    ("event_type", "text"),
    [
        (b"", b'{"error":{"message":"out of memory","code":500}}'),
        (b"", b'{"error":"out of memory"}'),
        (b"", b'{"object":"error","message":"out of memory"}'),
        (b"error", b"out of memory"),
    ],
)
def test_an_error_inside_a_200_stream_is_an_error(event_type: bytes, text: bytes) -> None:
    """guidellm 743."""
    assert "out of memory" in classify(event_type, text).error


def test_finish_reason_error_is_an_error() -> None:
    assert classify(b"", b'{"choices":[{"delta":{},"finish_reason":"error"}]}').error


def test_done_with_and_without_space() -> None:
    assert classify(b"", b"[DONE]").done
    assert classify(b"", b" [DONE] ").done


@pytest.mark.parametrize("text", [b"{", b"hello", b"[1]", b'"x"', b"\xff"])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        classify(b"", text)
